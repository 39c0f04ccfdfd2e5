// Parity cases of short_conv, delta_gates and delta_rule.
#include <cmath>

#include "graph/cases.h"

namespace sluice {
namespace {

// One sequence: a prompt in chunks, then single rows.
void chunked_steps(CaseBuilder& c) {
  c.step({{.position = 0, .rows = 64}});
  c.step({{.position = 64, .rows = 128}});
  c.step({{.position = 192, .rows = 27}});
  c.step({{.position = 219, .rows = 1}});
  c.step({{.position = 220, .rows = 1}});
}

// Three sequences of unequal length that come and go.
void ragged_steps(CaseBuilder& c) {
  c.step({{.sequence = 0, .rows = 70}, {.sequence = 1, .rows = 1}, {.sequence = 2, .rows = 130}});
  c.step({{.sequence = 2, .position = 130, .rows = 1},
          {.sequence = 0, .position = 70, .rows = 1},
          {.sequence = 1, .position = 1, .rows = 1}});
  c.step({{.sequence = 1, .position = 2, .rows = 2}});
  c.step({{.sequence = 0, .position = 71, .rows = 2}, {.sequence = 1, .position = 4, .rows = 3}});
  c.step({});
}

// Rows computed again from where they began: what a rejected draft left is gone.
void repeated_steps(CaseBuilder& c) {
  c.step({{.rows = 5}});
  c.step({{.position = 5, .rows = 4}});
  c.step({{.position = 5, .rows = 4, .take = 1}});
  c.step({{.position = 5, .rows = 1, .take = 2}});
  c.step({{.position = 6, .rows = 2, .take = 2}});
}

OpCase conv_case(uint32_t channels, uint32_t taps, Format format, void (*steps)(CaseBuilder&), const char* named) {
  CaseBuilder c(cat(channels, " channels, ", taps, " taps of ", format_name(format), ", ", named));
  const Value x = c.input(channels, 1, {.low = -3, .high = 3});
  const State empty = c.recorder().slot_state("conv", 1, taps - 1, channels);
  c.output(short_conv(x, empty, c.weight({.rows = channels, .columns = taps}, format)).out);
  steps(c);
  return c.done();
}

struct Shape {
  uint32_t key_heads = 1, value_heads = 1, key_width = 16, value_width = 16;
};

struct DeltaCase {
  const char* name;
  Shape shape;
  KeyHeads key_heads;
  void (*steps)(CaseBuilder&);
  Fill decay{.low = -1, .high = 0};
  Fill values{};
};

OpCase delta_case(const DeltaCase& one) {
  const Shape& shape = one.shape;
  CaseBuilder c(cat(one.name, ", ", shape.value_heads, " heads on ", shape.key_heads, " of ", shape.key_width, " and ",
                    shape.value_width, one.key_heads == KeyHeads::tiled ? ", tiled" : ", block"));
  const Value q = l2_norm(c.input(shape.key_width, shape.key_heads), 1e-6f);
  const Value k = l2_norm(c.input(shape.key_width, shape.key_heads), 1e-6f);
  const Value v = c.input(shape.value_width, shape.value_heads, one.values);
  const DeltaGate gate{.decay = c.input(shape.value_heads, 1, one.decay),
                       .beta = c.input(shape.value_heads, 1, {.low = 0, .high = 1})};
  const State empty = c.recorder().slot_state("delta", shape.value_heads, shape.key_width, shape.value_width);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.key_width));
  c.output(delta_rule(q, k, v, gate, empty, {.scale = scale, .key_heads = one.key_heads}).out);
  one.steps(c);
  return c.done();
}

}  // namespace

std::vector<OpCase> ShortConv::cases() {
  return {
      conv_case(64, 4, Format::f32, chunked_steps, "chunked"), conv_case(33, 4, Format::bf16, ragged_steps, "ragged"),
      conv_case(7, 2, Format::f32, ragged_steps, "ragged"),    conv_case(1, 3, Format::f16, repeated_steps, "repeated"),
      conv_case(100, 16, Format::f32, ragged_steps, "ragged"),
  };
}

std::vector<OpCase> DeltaGates::cases() {
  std::vector<OpCase> cases;
  for (const uint32_t heads : kWidths)
    for (const float largest : {3.0f, 60.0f}) {
      CaseBuilder c(cat(heads, " heads, inputs to ", largest));
      const Fill fill{.low = -largest, .high = largest};
      const Value a = c.input(heads, 1, fill), b = c.input(heads, 1, fill);
      const Weight rate = c.weight({.columns = heads}, Format::f32, {.low = -16, .high = -0.01f});
      const DeltaGate gate = delta_gates(a, b, rate, c.weight({.columns = heads}, Format::bf16));
      c.output(gate.decay);
      c.output(gate.beta);
      c.row_steps(heads == 33 ? kRowCounts : kFewRows);
      cases.push_back(c.done());
    }
  return cases;
}

std::vector<OpCase> DeltaRule::cases() {
  const Shape grouped{.key_heads = 2, .value_heads = 6, .key_width = 20, .value_width = 70};
  std::vector<OpCase> cases;
  for (const DeltaCase& one : {
           DeltaCase{"plain", {}, KeyHeads::block, chunked_steps},
           {"grouped", grouped, KeyHeads::block, ragged_steps},
           {"grouped", grouped, KeyHeads::tiled, ragged_steps},
           {"repeated", grouped, KeyHeads::tiled, repeated_steps},
           {"wide",
            {.key_heads = 1, .value_heads = 2, .key_width = 128, .value_width = 128},
            KeyHeads::block,
            chunked_steps},
           {"wider keys",
            {.key_heads = 1, .value_heads = 1, .key_width = 144, .value_width = 24},
            KeyHeads::block,
            chunked_steps},
           {"one element", {.value_heads = 3, .key_width = 1, .value_width = 1}, KeyHeads::block, ragged_steps},
           {"slow decay, large values",
            grouped,
            KeyHeads::block,
            chunked_steps,
            {.low = -1e-3f, .high = 0},
            {.low = -1e3f, .high = 1e3f}},
           {"strong decay", grouped, KeyHeads::block, ragged_steps, {.low = -200, .high = 0}},
       })
    cases.push_back(delta_case(one));
  return cases;
}

}  // namespace sluice
