// The factors that are trained. They lie twice: as the adapter's file has them, where the optimizer changes them, and
// as the program's weights, in the order of the model's own heads and one for each expert.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "base/threads.h"
#include "graph/weights.h"
#include "model/adapters/adapter.h"
#include "train/training_program.h"

namespace sluice {

// Stands before the model's own weights, which outlive it. The addresses of the factors stay; lay_out() changes their
// numbers between steps.
class TrainedFactors final : public WeightSource {
 public:
  // Fails with one sentence when the adapter changes a table of embeddings, or when the budget has no room.
  // `pool` outlives it; its threads also compute the optimizer.
  static Result<std::unique_ptr<TrainedFactors>> create(std::shared_ptr<const Adapter> adapter,
                                                        const WeightSource& weights, ThreadPool& pool, Budget& budget);
  ThreadPool& pool() const { return *pool_; }
  uint64_t reserved_bytes() const { return reserved_.bytes(); }

  std::vector<TrainedWeight> trained() const;
  Result<TensorSource> find(const std::string& name) const override;

  // By tensor of the adapter's file: its numbers, and the gradients of the loss for them.
  std::span<StoredFactor> tensors() { return tensors_; }
  std::span<const StoredFactor> tensors() const { return tensors_; }
  std::span<std::vector<float>> gradients();  // they take memory once they are asked for

  // Copies the tensors' numbers to the program's weights.
  void lay_out();
  std::span<const float> laid_out(const std::string& name) const { return *factors_.at(name).numbers; }
  // The program's weights by their names, in groups. Those of a group have the same stored numbers at the same places.
  // None, unless each stored number is in one group, in one place, and as large there.
  const std::vector<std::vector<std::string>>& groups();
  uint64_t version() const { return version_; }  // grows with every lay_out()
  // Whether the weight of that name is one of the factors.
  bool has(const std::string& name) const { return factors_.contains(name); }
  void clear_gradients();
  // Numbers for one of the program's weights, "w.adapter_a" or "w.adapter_b".
  struct Numbers {
    const std::string* factor;
    std::span<const float> numbers;
  };
  struct MutableNumbers {
    const std::string* factor;
    std::span<float> numbers;
  };
  // Adds the gradients of all of the program's weights, those of a stored number in the order of the adapter's weights.
  void add_gradients(std::span<const Numbers> gradients);
  // The same numbers by stored tensor, and for the program's weights. `weights` are one of each of groups().
  void to_stored(std::span<const Numbers> weights, std::span<std::vector<float>> tensors) const;
  void from_stored(std::span<const std::vector<float>> tensors, std::span<const MutableNumbers> weights) const;

 private:
  struct Factor {
    WeightShape shape;
    std::shared_ptr<std::vector<float>> numbers = {};
  };

  // A run of numbers of one of the factors.
  struct Run {
    const Factor* factor = nullptr;
    Adapter::Run numbers;
  };
  // Pieces of runs that threads take: numbers i from `first` to `end` - 1 of runs that follow one another in runs_.
  struct Piece {
    size_t run = 0, runs = 1;
    size_t first = 0, end = 0;
  };

  static uint64_t bytes(const Adapter& adapter);  // that it reserves
  TrainedFactors(std::shared_ptr<const Adapter> adapter, const WeightSource& weights, ThreadPool& pool)
      : adapter_(std::move(adapter)), weights_(&weights), pool_(&pool) {}
  void find_runs();
  void make_gradients();
  std::vector<std::vector<std::string>> find_groups() const;
  template <class Body>
  void each_piece(const Body& body) const;
  // Calls body(run, numbers of the run's weight, line) for every line of these weights, on any thread.
  template <class AnyNumbers, class Body>
  void each_line_with(std::span<const AnyNumbers> weights, const Body& body) const;

  std::shared_ptr<const Adapter> adapter_;
  const WeightSource* weights_;
  ThreadPool* pool_;
  Reservation reserved_;
  std::vector<StoredFactor> tensors_;
  std::vector<std::vector<float>> gradients_;
  std::unordered_map<std::string, Factor> factors_;
  std::vector<Run> runs_;      // by stored tensor
  std::vector<Piece> pieces_;  // no two have the same numbers of a stored tensor
  std::optional<std::vector<std::vector<std::string>>> groups_;
  uint64_t version_ = 0;
};

}  // namespace sluice
