// Parity cases of the gradients in which rows of a sequence see one another.
#include <cmath>

#include "graph/cases.h"

namespace sluice {
namespace {

// Whole sequences, since rows have gradients of later ones.
void whole_steps(CaseBuilder& c, uint32_t longest) {
  c.whole_runs();
  c.step({{.rows = longest}});
  c.step({{.sequence = 1, .rows = 3}, {.sequence = 0, .rows = 70}, {.sequence = 2, .rows = 1}});
  c.step({});
}

struct AttentionCase {
  const char* name;
  uint32_t heads, kv_heads, key_width, value_width;
  float scale = 0.3f;
  uint32_t window = 0;
  float softcap = 0;
  bool narrowed = false;  // only wanted rows attend
};

OpCase attention_case(const AttentionCase& one) {
  CaseBuilder c(cat(one.name, ", ", one.heads, " heads on ", one.kv_heads, " of ", one.key_width, " and ",
                    one.value_width, ", window ", one.window));
  Recorder& r = c.recorder();
  AttentionBackward op{.scale = one.scale, .window = one.window, .softcap = one.softcap};
  Value q = c.input(one.key_width, one.heads), d_out = c.input(one.value_width, one.heads);
  const Value k = c.input(one.key_width, one.kv_heads), v = c.input(one.value_width, one.kv_heads);
  if (one.narrowed) {
    const Value wanted = c.wanted();
    q = gather(q, wanted);
    d_out = gather(d_out, wanted);
  }
  const Value d_q = r.new_value(q.type()), d_k = r.new_value(k.type()), d_v = r.new_value(v.type());
  op.q = q.id, op.k = k.id, op.v = v.id, op.d_out = d_out.id;
  op.d_q = d_q.id, op.d_k = d_k.id, op.d_v = d_v.id;
  r.record(op);
  for (const Value made : {d_q, d_k, d_v}) c.output(made);
  if (one.narrowed) {
    c.whole_runs();
    c.step({{.sequence = 0, .rows = 70}, {.sequence = 1, .rows = 9}}, {2, 68, 69, 75});
    c.step({{.rows = 5}}, {4});
  } else {
    whole_steps(c, 140);
  }
  return c.done();
}

OpCase conv_case(uint32_t channels, uint32_t taps, Format format) {
  CaseBuilder c(cat(channels, " channels, ", taps, " taps of ", format_name(format)));
  Recorder& r = c.recorder();
  ShortConvBackward op;
  const Value x = c.input(channels, 1, {.low = -3, .high = 3});
  op.x = x.id;
  op.d_out = c.input(channels).id;
  op.weight = c.weight({.rows = channels, .columns = taps}, format).id;
  const Value d_x = r.new_value(x.type());
  op.d_x = d_x.id;
  r.record(op);
  c.output(d_x);
  whole_steps(c, 70);
  return c.done();
}

struct DeltaCase {
  const char* name;
  uint32_t key_heads, value_heads, key_width, value_width;
  KeyHeads order = KeyHeads::block;
  Fill decay{.low = -1, .high = 0};
};

OpCase delta_case(const DeltaCase& one) {
  CaseBuilder c(cat(one.name, ", ", one.value_heads, " heads on ", one.key_heads, " of ", one.key_width, " and ",
                    one.value_width));
  Recorder& r = c.recorder();
  DeltaRuleBackward op{.scale = 1.0f / std::sqrt(static_cast<float>(one.key_width)), .key_heads = one.order};
  const Value q = l2_norm(c.input(one.key_width, one.key_heads), 1e-6f);
  const Value k = l2_norm(c.input(one.key_width, one.key_heads), 1e-6f);
  const Value v = c.input(one.value_width, one.value_heads), d_out = c.input(one.value_width, one.value_heads);
  const Value decay = c.input(one.value_heads, 1, one.decay), beta = c.input(one.value_heads, 1, {.low = 0});
  const Value d_q = r.new_value(q.type()), d_k = r.new_value(k.type()), d_v = r.new_value(v.type());
  const Value d_decay = r.new_value(decay.type()), d_beta = r.new_value(beta.type());
  op.q = q.id, op.k = k.id, op.v = v.id, op.decay = decay.id, op.beta = beta.id, op.d_out = d_out.id;
  op.d_q = d_q.id, op.d_k = d_k.id, op.d_v = d_v.id, op.d_decay = d_decay.id, op.d_beta = d_beta.id;
  r.record(op);
  for (const Value made : {d_q, d_k, d_v, d_decay, d_beta}) c.output(made);
  whole_steps(c, 90);
  return c.done();
}

}  // namespace

std::vector<OpCase> AttentionBackward::cases() {
  std::vector<OpCase> cases;
  for (const AttentionCase& one : {
           AttentionCase{"plain", 2, 2, 16, 16},
           {"grouped", 6, 2, 33, 20},
           {"window", 4, 1, 24, 24, 1.0f, 40},
           {"softcap", 2, 1, 16, 32, 1.0f, 0, 2.0f},
           {"narrowed", 4, 2, 20, 20, 0.3f, 50, 0, true},
       })
    cases.push_back(attention_case(one));
  return cases;
}

std::vector<OpCase> ShortConvBackward::cases() {
  return {conv_case(64, 4, Format::f32), conv_case(33, 4, Format::bf16), conv_case(7, 2, Format::f32)};
}

std::vector<OpCase> DeltaGatesBackward::cases() {
  std::vector<OpCase> cases;
  for (const float largest : {3.0f, 60.0f}) {
    CaseBuilder c(cat("33 heads, inputs to ", largest));
    Recorder& r = c.recorder();
    const Fill fill{.low = -largest, .high = largest};
    const Value a = c.input(33, 1, fill), b = c.input(33, 1, fill), d_decay = c.input(33), d_beta = c.input(33);
    const Weight rate = c.weight({.columns = 33}, Format::f32, {.low = -16, .high = -0.01f});
    const Weight bias = c.weight({.columns = 33}, Format::bf16);
    const Value d_a = r.new_value(a.type()), d_b = r.new_value(b.type());
    r.record(DeltaGatesBackward{.a = a.id,
                                .b = b.id,
                                .rate = rate.id,
                                .bias = bias.id,
                                .d_decay = d_decay.id,
                                .d_beta = d_beta.id,
                                .d_a = d_a.id,
                                .d_b = d_b.id});
    c.output(d_a);
    c.output(d_b);
    c.row_steps(kFewRows);
    cases.push_back(c.done());
  }
  return cases;
}

std::vector<OpCase> DeltaRuleBackward::cases() {
  std::vector<OpCase> cases;
  for (const DeltaCase& one : {
           DeltaCase{"plain", 1, 1, 16, 16},
           {"grouped", 2, 6, 20, 33},
           {"tiled", 2, 4, 20, 33, KeyHeads::tiled},
           {"slow decay", 1, 2, 32, 64, KeyHeads::block, {.low = -1e-3f, .high = 0}},
           {"strong decay", 2, 2, 16, 24, KeyHeads::block, {.low = -60, .high = 0}},
       })
    cases.push_back(delta_case(one));
  return cases;
}

}  // namespace sluice
