// Weights of a file that has no addresses, as in a page, read into memory for a device that computes in the host's
// memory. Experts that are read as they are chosen stay in the file, except small parts that do not move
// (expert_pieces).
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
  // Bytes of tables whose rows are read and that lie in no memory. A device's plan does not count them.
  static Result<uint64_t> table_bytes(const Program& program, const WeightSource& weights);
  // Reads all weights that the program uses; null if all of them lie in memory. Reserves table_bytes(). `streams`:
  // experts are read as they are chosen. `weights` must outlive it.
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
