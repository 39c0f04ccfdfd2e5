// The parts of a layer that Gemma 4's text (gemma4.cpp) and the model that drafts for it (gemma4_assistant.cpp) share.
#pragma once

#include <cmath>
#include <cstdint>

#include "graph/recorder.h"
#include "model/families/gemma4_config.h"
#include "model/weight_table.h"

namespace sluice::gemma4 {

// Adds the weights of one layer to the table's section. A layer without keys of its own has no weights for them.
void layer_weights(WeightTable& t, const Config& c, const Layer& l);

inline float square_root(uint32_t n) { return static_cast<float>(std::sqrt(static_cast<double>(n))); }
inline float inverse_root(uint32_t n) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(n))); }

inline constexpr ActivationKind kActivation = ActivationKind::gelu_tanh;

// Records the blocks of a layer: a program derives from it and adds what is its own.
class Layers {
 protected:
  Layers(Recorder& recorder, const Config& config) : r_(recorder), c_(config) {}

  // Rope of sliding and full layers as `of` has it. `positions`: an input with the position of each row; none: the
  // row's own.
  void declare_ropes(const Config& of, Value positions);
  RopeId rope_of(const Layer& l) const { return l.sliding ? sliding_rope_ : full_rope_; }

  // x + attention. `q`: the queries before norm and rope; `last`: the last position that a row sees, or none.
  Value attend(const Layer& l, const WeightScope& w, Value x, Value q, State keys_values, Value last);
  Value feed_forward_block(const Layer& l, const WeightScope& w, Value x);
  void mark(Value value, const Layer& l, const char* what) { r_.name(value, cat("layer.", l.index, ".", what)); }

  Recorder& r_;
  const Config& c_;

 private:
  Value experts_of(const Layer& l, const WeightScope& w, Value x);

  RopeId full_rope_ = kNone, sliding_rope_ = kNone;
};

}  // namespace sluice::gemma4
