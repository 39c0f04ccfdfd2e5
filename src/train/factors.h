// The factors that are trained. They lie twice: as the adapter's file has them, where the optimizer changes them, and
// as the program's weights, in the order of the model's own heads and one for each expert.
#pragma once

#include <memory>
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
  std::span<std::vector<float>> gradients() { return gradients_; }

  // Copies the tensors' numbers to the program's weights.
  void lay_out();
  uint64_t version() const { return version_; }  // grows with every lay_out()
  // Whether the weight of that name is one of the factors.
  bool has(const std::string& name) const { return factors_.contains(name); }
  void clear_gradients();
  // Adds the gradients of all of the program's weights, "w.adapter_a" and "w.adapter_b", those of a stored number in
  // the order of the adapter's weights.
  struct Gradient {
    const std::string* factor;
    std::span<const float> numbers;
  };
  void add_gradients(std::span<const Gradient> gradients);

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
  template <class Body>
  void each_piece(const Body& body) const;

  std::shared_ptr<const Adapter> adapter_;
  const WeightSource* weights_;
  ThreadPool* pool_;
  Reservation reserved_;
  std::vector<StoredFactor> tensors_;
  std::vector<std::vector<float>> gradients_;
  std::unordered_map<std::string, Factor> factors_;
  std::vector<Run> runs_;      // by stored tensor
  std::vector<Piece> pieces_;  // no two have the same numbers of a stored tensor
  uint64_t version_ = 0;
};

}  // namespace sluice
