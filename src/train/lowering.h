// The forward part of a training step (training_program.h), recorded from a text program.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/recorder.h"
#include "train/training_program.h"

namespace sluice {

// Ops [0, ops) of the recorder, and the weights whose gradients are wanted.
struct Forward {
  uint32_t ops = 0;
  std::vector<WeightId> factors;  // of `names`
  std::vector<std::string> names;
  Value loss;
};

class Lowering {
 public:
  Lowering(Recorder& recorder, const Program& text, const std::vector<TrainedWeight>& trained);
  // The values, weights, inputs and slot states of a text program, without its ops.
  static Program begun(const Program& text);

  // Without `gradients` the loss makes none, as an evaluation's.
  Result<Forward> run(bool gradients);

 private:
  void lower(const Append& op);
  void lower(const Attention& op);
  void lower(const Linear& op);
  void lower(const Experts& op);
  void lower(const ShortConv& op);
  void lower(const DeltaRule& op);
  void lower(const Sample& /*op*/) {}
  template <class O>
  void lower(const O& op) {
    r_.record(op);
  }

  // The factors of a weight, or null.
  struct Factors {
    Weight a, b;
    float scale = 1;
    bool transposed = false;  // of the transposed weight
  };
  const Factors* factors_of(WeightId weight);
  // out = W x, with the weight's factors, by expert.
  struct Choice {
    ValueId x = kNone;
    ValueId index = kNone;
    bool by_choice = false;
  };
  Value expert_linear(const Choice& choice, WeightId weight);
  Value expert_transposed(ValueId x, WeightId weight);  // by choice, all experts
  ValueId own_keys(const Append& kept, const Expansion& expand, uint32_t heads);
  ValueId own_values(const Append& kept, const Expansion& expand);
  StateRef slot(const StateRef& state) const { return {.state = slots_.at(state.state), .version = state.version}; }
  bool find_head();
  void record_loss(bool gradients);

  Value at(ValueId id) { return {&r_, id}; }
  template <class O>
  Value with(O op) {  // appends `op` with a new value as its result
    op.out = r_.new_value(op.result(r_.program())).id;
    r_.record(op);
    return at(op.out);
  }

  Recorder& r_;
  const Program& text_;
  std::map<WeightId, Factors> trained_;
  std::vector<std::string> missing_;                             // trained weights that the program does not have
  std::map<uint32_t, uint32_t> slots_;                           // of the text's slot states
  std::map<std::pair<uint32_t, uint32_t>, const Append*> kept_;  // by state and version
  const Linear* head_ = nullptr;
  const Softcap* cap_ = nullptr;
  Forward forward_;
};

}  // namespace sluice
