// Walks recorded ops backwards (reverse accumulation: Linnainmaa 1976): the gradient of each op is a few ops. Gradients
// of a value that several ops read are added in the order in which they come.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "graph/recorder.h"

namespace sluice {

// The ops of a layer that are computed once more before its gradients are.
enum class MadeAgain : uint8_t {
  nothing,  // all values are still there
  small,    // the results of costly ops are still there: products, attention, delta rules, choices of experts
  all,
};

class Gradients {
 public:
  // Ops [0, ops) of the recorder are the forward part; `factors` are the weights whose gradients are wanted.
  Gradients(Recorder& recorder, uint32_t ops, const std::vector<WeightId>& factors);

  // Whether anything that is trained acts on the value.
  bool depends(ValueId value) const { return depends_[storage(value)]; }

  // Adds a gradient of `value`, of its type or a view of it. Nothing is done where nothing trained acts on the value.
  void add_to(ValueId value, Value gradient);
  void add_to_weight(WeightId weight, Value gradient);

  // Records the gradients of the inputs of ops [first, end) of the forward part, which lie in one layer, from the last.
  void walk(uint32_t first, uint32_t end, MadeAgain again);

  // None: no op uses the weight, or nothing that is wanted depends on the result.
  std::optional<Value> of_weight(WeightId weight) const;

 private:
  void back(const Linear& op);
  void back(const RmsNorm& op);
  void back(const L2Norm& op);
  void back(const Add& op);
  void back(const AddBias& op);
  void back(const Mul& op);
  void back(const Scale& op);
  void back(const Activation& op);
  void back(const GatedActivation& op);
  void back(const Rope& op);
  void back(const Attention& op);
  void back(const ShortConv& op);
  void back(const DeltaGates& op);
  void back(const DeltaRule& op);
  void back(const Route& op);
  void back(const Gather& op);
  void back(const Pool& op);
  void back(const Slice& op);
  void back(const ExpertLinear& op);
  void back(const ExpertLinearTransposed& op);
  void back(const Broadcast& op);
  void back(const Join& op);
  void back(const CrossEntropy& op);
  // Other ops have no gradient: what they read depends on nothing that is trained.
  template <class O>
  void back(const O& op);

  ValueId storage(ValueId value) const { return recorder_.program().values[value].storage; }
  const ValueType& type(ValueId value) const { return recorder_.program().values[value].type; }
  bool wanted(WeightId weight) const;
  bool is_wanted_of(const Op& op) const;  // whether the op's results depend on what is trained
  // Of a result, as its type has it; none: nothing that is differentiated reads it.
  std::optional<Value> gradient(ValueId value);
  std::vector<bool> kept_ops(std::span<const Op> layer) const;
  void record_again(Op& op);
  std::vector<Op> made_again(uint32_t first, uint32_t end, MadeAgain again);
  ValueId renamed(ValueId value);
  Value at(ValueId id) { return {&recorder_, id}; }
  Value as(Value value, const ValueType& type);
  Value fresh(const ValueType& type) { return recorder_.new_value(type); }
  Value fresh_like(ValueId value) { return fresh(type(value)); }
  template <class O>
  Value with(O op, ValueId O::* result);

  Recorder& recorder_;
  std::vector<WeightId> factors_;
  std::vector<bool> depends_;           // by value; of those that own memory
  std::map<ValueId, Value> gradients_;  // by value; likewise
  std::map<WeightId, Value> of_weights_;
  std::map<ValueId, ValueId> renamed_;  // of the layer that is made again
  std::vector<uint32_t> versions_;      // of states
};

}  // namespace sluice
