// Weights that lie in a file which no address reaches, as a page's files do, for a device that computes with what lies
// in the host's memory: read into memory of their own. Experts that come and go stay in the file, but for small parts
// of them that do not move (expert_pieces).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "base/budget.h"
#include "base/result.h"
#include "graph/program.h"
#include "graph/weights.h"

namespace sluice {

// Stands before the model's own weights.
class HeldWeights final : public WeightSource {
 public:
  // Of tables of which rows are read, and which lie in no memory: a device's plan does not count them.
  static Result<uint64_t> table_bytes(const Program& program, const WeightSource& weights);
  // Reads all that the program uses; null where all of it lies in memory. Reserves table_bytes(). `streams`: experts
  // come and go. `weights` outlive it.
  static Result<std::unique_ptr<HeldWeights>> take(const Program& program, const WeightSource& weights, bool streams,
                                                   Budget& budget);
  Result<TensorSource> find(const std::string& name) const override;

 private:
  explicit HeldWeights(const WeightSource& weights) : weights_(&weights) {}

  const WeightSource* weights_;
  Reservation tables_;
  std::unordered_map<std::string, TensorSource> held_;
};

}  // namespace sluice
