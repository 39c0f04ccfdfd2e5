// The adapters of an engine: the factors of each slot as weights of the program (graph/ops/adapter.h).
//
// A slot holds a sum of adapters. Several adapters with their scales are one of a higher rank: the rows of their A
// stand behind one another, and the columns of their B, which their scales have multiplied. One adapter alone keeps its
// factors, and its rows are scaled in the step, so one slot serves every scale of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/options.h"
#include "graph/ops/adapter.h"
#include "graph/program.h"
#include "graph/weights.h"

namespace sluice {

// The row of a request in the step's inputs. With no adapter it has the bits of a program without the operand.
struct AdapterRow {
  int32_t slot = 0;  // 0: none, or 1 + a slot
  float scale = 0;
};

// The sum without adapters of scale 0.
AdapterSum acting(const AdapterSum& sum);

// Stands before the model's own weights.
class AdapterSlots final : public WeightSource {
 public:
  // What a program that can take all of these sums is recorded with.
  static AdapterOptions options(const std::vector<AdapterSum>& sums);
  // Takes no memory yet; null without sums. Fails with one sentence when an adapter changes a weight that takes none in
  // `program`. `weights` outlive it.
  static Result<std::unique_ptr<AdapterSlots>> plan(const Program& program, const WeightSource& weights,
                                                    std::vector<AdapterSum> sums);
  uint64_t bytes() const;  // of memory that it takes
  // Reads the factors; before find() is asked for what a device is to use.
  void take();

  Result<TensorSource> find(const std::string& name) const override;

  // Fails with one sentence when no slot holds the sum.
  Result<AdapterRow> row_of(const AdapterSum& sum) const;
  // Names a sum in histories and states: sums of the same name give the same bits. "" for none.
  std::string name_of(const AdapterSum& sum) const;

 private:
  // One factor of a weight, of all slots: slots x experts x [rows, columns].
  struct Factor {
    std::string weight;  // that the factors change
    bool is_embedding = false, is_b = false;
    WeightShape shape;
    Format format{};
    std::shared_ptr<std::vector<std::byte>> memory = {};
  };

  AdapterSlots(const WeightSource& weights, std::vector<AdapterSum> sums)
      : weights_(&weights), sums_(std::move(sums)) {}
  Status add_factor(const WeightDecl& decl, std::string weight, bool is_embedding, bool is_b);
  Status check_all_are_taken() const;
  void fill(Factor& factor, size_t slot) const;
  static uint64_t bytes_of(const Factor& factor);

  const WeightSource* weights_;
  std::vector<AdapterSum> sums_;  // by slot
  uint32_t rank_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Factor> factors_;  // by name in the program
};

}  // namespace sluice
