#include "graph/recorder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "graph/op_check.h"

namespace sluice {
namespace {

constexpr Extent kWanted{.symbol = Symbol::wanted};
constexpr Extent kPatches{.symbol = Symbol::patches};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Value floats(Recorder& r, const char* name, uint32_t width, uint32_t heads = 1, Extent extent = {}) {
  return r.input(name, {.extent = extent, .heads = heads, .width = width});
}
Value integers(Recorder& r, const char* name, uint32_t width = 1, Extent extent = {}) {
  return r.input(name, {.extent = extent, .width = width, .element = Element::i32});
}

std::string mistake(const std::function<void(Recorder&)>& record) {
  Recorder r;
  record(r);
  const Result<Program> program = r.finish();
  return program.ok() ? "" : program.error().text;
}

TEST(Recorder, WritesDownOpsValuesAndLayers) {
  Recorder r;
  const Value ids = integers(r, "tokens");
  Value x = embed(ids, r.weight("embed", {.rows = 50, .columns = 8}), 2.0f);
  r.begin_layer(3);
  x = rms_norm(linear(x, r.weight("layer.3.o_proj", {.rows = 6, .columns = 8})), 1e-6f);
  r.begin_layer(-1);
  r.output(scale(x, 0.5f), "out");
  const Result<Program> program = r.finish();
  ASSERT_TRUE(program.ok()) << program.error().text;
  EXPECT_EQ(program->ops.size(), 4u);
  EXPECT_EQ(program->layers, (std::vector<int32_t>{-1, 3, 3, -1}));
  EXPECT_EQ(op_name(program->ops[1]), "linear");
  EXPECT_EQ(describe(program->values[program->outputs[0].value].type), "f32 [rows, 6]");
  EXPECT_EQ(program->weights[1].name, "layer.3.o_proj");
}

TEST(Recorder, TheSameWeightTwiceIsOneWeight) {
  Recorder r;
  const Weight a = r.weight("embed", {.rows = 50, .columns = 8});
  const Weight b = r.weight("embed", {.rows = 50, .columns = 8});
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(r.finish()->weights.size(), 1u);
}

TEST(Recorder, EqualRopeTablesAreOne) {
  Recorder r;
  const RopeDecl half{.inverse_frequencies = {1.0f, 0.5f}};
  RopeDecl adjacent = half;
  adjacent.pairing = Pairing::adjacent;
  EXPECT_EQ(r.rope_table(half), 0u);
  EXPECT_EQ(r.rope_table(adjacent), 1u);
  EXPECT_EQ(r.rope_table(half), 0u);
}

TEST(Recorder, GivesAdaptersToTheLinearsThatAreListed) {
  Recorder r;
  r.take_adapters({.slots = 4, .rank = 2, .weights = {"b"}});
  const Value x = floats(r, "x", 8);
  linear(x, r.weight("a", {.rows = 6, .columns = 8}));
  linear(x, r.weight("b", {.rows = 5, .columns = 8}));
  const Result<Program> program = r.finish();
  ASSERT_TRUE(program.ok()) << program.error().text;
  EXPECT_FALSE(std::get<Linear>(program->ops[0]).adapter);
  const AdapterOperand adapter = std::get<Linear>(program->ops[1]).adapter;
  ASSERT_TRUE(adapter);
  EXPECT_EQ(program->weights[adapter.a].name, "b.adapter_a");
  EXPECT_EQ(describe(program->weights[adapter.a].shape), "4 x [2, 8]");
  EXPECT_EQ(program->weights[adapter.b].name, "b.adapter_b");
  EXPECT_EQ(describe(program->weights[adapter.b].shape), "4 x [5, 2]");
  ASSERT_EQ(program->inputs.size(), 3u);
  EXPECT_EQ(program->inputs[1].name, "adapter_slots");
  EXPECT_EQ(program->inputs[2].name, "adapter_scales");
}

TEST(Recorder, NamesAnAdapterThatDoesNotFitItsLinear) {
  const auto with = [](const WeightShape& a, const WeightShape& b) {
    return mistake([&](Recorder& r) {
      const Value x = floats(r, "x", 8), scales = floats(r, "scales", 1);
      const AdapterOperand adapter = {
          .a = r.weight("a", a).id, .b = r.weight("b", b).id, .slots = integers(r, "slots").id, .scales = scales.id};
      const Value out = r.new_value({.width = 5});
      r.record(
          Linear{.x = x.id, .weight = r.weight("w", {.rows = 5, .columns = 8}).id, .adapter = adapter, .out = out.id});
    });
  };
  EXPECT_EQ(with({.experts = 4, .rows = 2, .columns = 8}, {.experts = 4, .rows = 5, .columns = 2}), "");
  EXPECT_EQ(with({.experts = 4, .rows = 2, .columns = 7}, {.experts = 4, .rows = 5, .columns = 2}),
            "linear: adapter.a a is 4 x [2, 7]: want 4 x [2, 8]");
  EXPECT_EQ(with({.experts = 4, .rows = 2, .columns = 8}, {.experts = 3, .rows = 5, .columns = 2}),
            "linear: adapter.b b is 3 x [5, 2]: want 4 x [5, 2]");
  EXPECT_EQ(with({.experts = 4, .rows = 2, .columns = 8}, {.experts = 4, .rows = 6, .columns = 2}),
            "linear: adapter.b b is 4 x [6, 2]: want 4 x [5, 2]");
}

TEST(Recorder, ViewsShareTheStorageOfTheirValue) {
  Recorder r;
  const Value x = floats(r, "x", 12);
  const Value split = heads(x, 3);
  const Value again = flatten(split);
  EXPECT_EQ(describe(split.type()), "f32 [rows, 3, 4]");
  EXPECT_EQ(describe(again.type()), "f32 [rows, 12]");
  const Result<Program> program = r.finish();
  EXPECT_EQ(program->values[split.id].storage, x.id);
  EXPECT_EQ(program->values[again.id].storage, x.id);
  EXPECT_TRUE(program->ops.empty());
}

TEST(Recorder, StatesOfOneWindowShareAGroup) {
  Recorder r;
  r.paged_state("layer.0.kv", 1, 4, 4, 64);
  r.paged_state("layer.1.kv", 2, 8, 8, 0);
  r.paged_state("layer.2.kv", 1, 4, 4, 64);
  const Result<Program> program = r.finish();
  ASSERT_EQ(program->groups.size(), 2u);
  EXPECT_EQ(program->groups[0].window, 64u);
  EXPECT_EQ(program->states[2].group, 0u);
  EXPECT_EQ(program->states[1].group, 1u);
}

TEST(Recorder, SlotStatesAreOneGroup) {
  Recorder r;
  r.paged_state("layer.0.kv", 1, 4, 4, 0);
  r.slot_state("layer.1.conv", 1, 3, 8);
  r.slot_state("layer.1.delta", 2, 4, 4);
  const Result<Program> program = r.finish();
  ASSERT_EQ(program->groups.size(), 2u);
  EXPECT_EQ(program->groups[1].kind, StateKind::slots);
  EXPECT_EQ(program->states[1].group, 1u);
  EXPECT_EQ(program->states[2].group, 1u);
}

TEST(Recorder, ShortConvGivesTheNextVersion) {
  Recorder r;
  const State state = r.slot_state("conv", 1, 3, 8);
  const Stepped stepped = short_conv(floats(r, "x", 8), state, r.weight("w", {.rows = 8, .columns = 4}));
  EXPECT_EQ(stepped.next.ref.version, 1u);
  EXPECT_EQ(describe(stepped.out.type()), "f32 [rows, 8]");
  EXPECT_TRUE(r.finish().ok());
}

TEST(Recorder, NamesAStateOfTheWrongKindOrShape) {
  const auto conv = [](Recorder& r, State state) {
    short_conv(floats(r, "x", 8), state, r.weight("w", {.rows = 8, .columns = 4}));
  };
  EXPECT_EQ(mistake([&](Recorder& r) { conv(r, r.paged_state("kv", 1, 4, 4, 0)); }),
            "short_conv: state kv has pages: want a slot");
  EXPECT_EQ(mistake([&](Recorder& r) { conv(r, r.slot_state("conv", 1, 4, 8)); }),
            "short_conv: state conv is [1, 4, 8]: want [1, 3, 8]");
  EXPECT_EQ(mistake([&](Recorder& r) { append(r.slot_state("s", 1, 4, 4), floats(r, "x", 4), floats(r, "y", 4)); }),
            "append: state s is a slot: want pages");
  EXPECT_EQ(mistake([&](Recorder& r) { r.slot_state("s", 1u << 20, 1u << 20, 1u << 20); }).substr(0, 47),
            "state s is [1048576, 1048576, 1048576]: want 1 ");
}

TEST(Recorder, RefusesToShowAHeadThatAValueDoesNotHave) {
  EXPECT_EQ(mistake([](Recorder& r) { r.name(heads(floats(r, "x", 8), 2), "layer.0.x", {1, 0, 2}); }),
            "name layer.0.x shows head 2 of f32 [rows, 2, 4]: want one it has");
}

TEST(Recorder, AppendGivesTheNextVersion) {
  Recorder r;
  State kv = r.paged_state("kv", 1, 4, 4, 0);
  const Value x = floats(r, "x", 4);
  kv = append(kv, x, x);
  EXPECT_EQ(kv.ref.version, 1u);
  attention(x, kv, {});
  EXPECT_TRUE(r.finish().ok());
}

TEST(Recorder, RefusesToReadAnOutdatedState) {
  EXPECT_EQ(mistake([](Recorder& r) {
              const State kv = r.paged_state("layer.2.kv", 1, 4, 4, 0);
              const Value x = floats(r, "x", 4);
              append(kv, x, x);
              r.begin_layer(2);
              attention(x, kv, {});
            }),
            "layer 2: state is version 0 of layer.2.kv: want version 1, its latest");
}

TEST(Recorder, RefusesToAppendToAnOutdatedState) {
  EXPECT_EQ(mistake([](Recorder& r) {
              const State kv = r.paged_state("kv", 1, 4, 4, 0);
              const Value x = floats(r, "x", 4);
              append(kv, x, x);
              append(kv, x, x);
            }),
            "state is version 0 of kv: want version 1, its latest");
}

TEST(Recorder, KeepsTheFirstMistakeAndGoesOn) {
  EXPECT_EQ(mistake([](Recorder& r) {
              const Value x = floats(r, "x", 10);
              const Value y = linear(x, r.weight("layer.0.q_proj", {.rows = 4, .columns = 8}));
              const Value z = heads(y, 3);
              r.output(add(z, x), "out");
            }),
            "linear: x is f32 [rows, 10]: want 8 columns as weight layer.0.q_proj");
}

TEST(Recorder, NamesWhatDoesNotFit) {
  const struct {
    std::function<void(Recorder&)> record;
    const char* text;
  } cases[] = {
      {[](Recorder& r) { linear(floats(r, "x", 8), {}); }, "linear: weight is missing"},
      {[](Recorder& r) { rms_norm(floats(r, "x", 8), Weight{}, 1e-6f); }, "rms_norm: weight is missing"},
      {[](Recorder& r) { linear(floats(r, "x", 8), r.weight("e", {.experts = 2, .rows = 3, .columns = 8})); },
       "linear: weight e is 2 x [3, 8]: want one matrix"},
      {[](Recorder& r) { linear(integers(r, "x", 8), r.weight("w", {.rows = 3, .columns = 8})); },
       "linear: x is i32 [rows, 8]: want f32"},
      {[](Recorder& r) { embed(floats(r, "x", 1), r.weight("w", {.rows = 3, .columns = 8}), 1); },
       "embed: ids is f32 [rows, 1]: want i32"},
      {[](Recorder& r) {
         const Value ids = r.input("x", {.heads = 2, .width = 2, .element = Element::i32});
         embed(ids, r.weight("w", {.rows = 3, .columns = 8}), 1);
       },
       "embed: ids is i32 [rows, 2, 2]: want one head"},
      {[](Recorder& r) { embed(integers(r, "x"), r.weight("w", {.rows = 3, .columns = 8}), kNan); },
       "embed: scale is nan: want a finite number"},
      {[](Recorder& r) { rms_norm(floats(r, "x", 8, 2), r.weight("n", {.columns = 16}), 1e-6f); },
       "rms_norm: weight n is [1, 16]: want [1, 8]"},
      {[](Recorder& r) { rms_norm(floats(r, "x", 8), 0.0f); }, "rms_norm: eps is 0: want a positive number"},
      {[](Recorder& r) { layer_norm(floats(r, "x", 8, 2), Weight{}, r.weight("b", {.columns = 16}), 1e-6f); },
       "layer_norm: bias b is [1, 16]: want [1, 8]"},
      {[](Recorder& r) { layer_norm(floats(r, "x", 8), Weight{}, Weight{}, kNan); },
       "layer_norm: eps is nan: want a positive number"},
      {[](Recorder& r) { add(floats(r, "a", 8, 2), r.weight("b", {.columns = 8})); },
       "add_bias: bias b is [1, 8]: want [1, 16]"},
      {[](Recorder& r) { add(floats(r, "a", 8), Weight{}); }, "add_bias: bias is missing"},
      {[](Recorder& r) { clamp(floats(r, "x", 8), r.weight("low", {.columns = 8}), Weight{}); },
       "clamp: low low is [1, 8]: want [1, 1]"},
      {[](Recorder& r) { clamp(floats(r, "x", 8), r.weight("low", {.columns = 1}), Weight{}); },
       "clamp: high is missing"},
      {[](Recorder& r) { add(floats(r, "a", 8), floats(r, "b", 7)); }, "add: b is f32 [rows, 7]: want f32 [rows, 8]"},
      {[](Recorder& r) { mul(floats(r, "a", 8, 2), floats(r, "b", 16)); },
       "mul: b is f32 [rows, 16]: want f32 [rows, 2, 8]"},
      {[](Recorder& r) { add(floats(r, "a", 8), floats(r, "b", 8, 1, kWanted)); },
       "add: b is f32 [wanted, 8]: want f32 [rows, 8]"},
      {[](Recorder& r) { scale(floats(r, "x", 8), r.weight("s", {.columns = 3})); },
       "scale: weight is [1, 3]: want [1, 1] or [1, 8]"},
      {[](Recorder& r) { softcap(floats(r, "x", 8), -1.0f); }, "softcap: cap is -1: want a positive number"},
      {[](Recorder& r) { gated_activation(floats(r, "a", 8), floats(r, "b", 4), ActivationKind::silu); },
       "gated_activation: up is f32 [rows, 4]: want f32 [rows, 8]"},
      {[](Recorder& r) { rope(floats(r, "x", 6, 2), r.rope_table({.inverse_frequencies = {1, 1, 1, 1}})); },
       "rope: x is f32 [rows, 2, 6]: want heads of at least 8 elements as the table turns"},
      {[](Recorder& r) { rope(floats(r, "x", 6), 4); }, "rope: table is missing"},
      {[](Recorder& r) { rope(floats(r, "x", 6, 1, kWanted), r.rope_table({.inverse_frequencies = {1}})); },
       "rope: x is f32 [wanted, 6]: want an input named wanted in the program"},
      {[](Recorder& r) { r.rope_table({.inverse_frequencies = {1, kNan}}); },
       "a rope table has a frequency that is not finite, or too many: want finite ones"},
      {[](Recorder& r) {
         const Value at = integers(r, "at", 2, kPatches);
         rope(floats(r, "x", 6), r.rope_table({.inverse_frequencies = {1}, .axes = {1}, .coordinates = at.id}));
       },
       "rope: x is f32 [rows, 6]: want rows of i32 [patches, 2], the coordinates that turn them"},
      {[](Recorder& r) {
         const Value at = integers(r, "at", 2, kPatches);
         r.rope_table({.inverse_frequencies = {1, 1}, .axes = {0, 2}, .coordinates = at.id});
       },
       "a rope table has 2 axes for 2 pairs: want one a pair, below 2"},
      {[](Recorder& r) { r.rope_table({.inverse_frequencies = {1, 1}, .axes = {0}}); },
       "a rope table has 1 axes for 2 pairs: want one a pair, below 1"},
      {[](Recorder& r) {
         const Value at = integers(r, "at", 2, kWanted);
         r.rope_table({.inverse_frequencies = {1}, .axes = {0}, .coordinates = at.id});
       },
       "a rope table has coordinates i32 [wanted, 2]: want an input of i32, of a step's rows or a tower's"},
      {[](Recorder& r) { append(r.paged_state("kv", 2, 4, 4, 0), floats(r, "k", 4, 2), floats(r, "v", 4)); },
       "append: v is f32 [rows, 4]: want f32 [rows, 2, 4]"},
      {[](Recorder& r) { append({}, floats(r, "k", 4), floats(r, "v", 4)); }, "append: state is missing"},
      {[](Recorder& r) { attention(floats(r, "q", 8, 2), r.paged_state("kv", 2, 4, 4, 0), {}); },
       "attention: q is f32 [rows, 2, 8]: want heads of 4 elements as the keys of kv"},
      {[](Recorder& r) { attention(floats(r, "q", 4, 3), r.paged_state("kv", 2, 4, 4, 0), {}); },
       "attention: q is f32 [rows, 3, 4]: want a multiple of the 2 heads of kv"},
      {[](Recorder& r) { attention(floats(r, "q", 4), r.paged_state("kv", 1, 4, 4, 32), {.window = 33}); },
       "attention: window is 33: want at most the 32 positions that kv keeps"},
      {[](Recorder& r) { attention(floats(r, "q", 4), r.paged_state("kv", 1, 4, 4, 32), {}); },
       "attention: window is without end: want at most the 32 positions that kv keeps"},
      {[](Recorder& r) { attention(floats(r, "q", 4), r.paged_state("kv", 1, 4, 4, 0), {.softcap = kNan}); },
       "attention: softcap is nan: want a positive number"},
      {[](Recorder& r) {
         const Value q = floats(r, "q", 4);
         attention(q, r.paged_state("kv", 1, 4, 4, 0), {.last = integers(r, "last", 2)});
       },
       "attention: last is i32 [rows, 2]: want i32 [rows, 1]"},
      {[](Recorder& r) {
         const Value q = floats(r, "q", 4);
         attention(q, r.paged_state("kv", 1, 4, 4, 0), {.window = 3, .first = integers(r, "first")});
       },
       "attention: first is given with a window: want one of them"},
      {[](Recorder& r) {
         const Value q = floats(r, "q", 4);
         attention(q, {.key = floats(r, "k", 4), .value = floats(r, "v", 4, 2)}, {});
       },
       "attention: v is f32 [rows, 2, 4]: want f32 [rows, 4]"},
      {[](Recorder& r) {
         const Value q = floats(r, "q", 4), k = floats(r, "k", 4, 1, kWanted);
         attention(q, {.key = k, .value = k}, {});
       },
       "attention: k is f32 [wanted, 4]: want f32 [rows, 4]"},
      {[](Recorder& r) {
         const Value q = floats(r, "q", 6), k = floats(r, "k", 4);
         attention(q, {.key = k, .value = k}, {});
       },
       "attention: q is f32 [rows, 6]: want heads of 4 elements as the keys of k"},
      {[](Recorder& r) {
         const Value q = floats(r, "q", 4, 1, kPatches);
         attention(q, {.key = q, .value = q}, {.first = integers(r, "first", 1, kPatches)});
       },
       "attention: q is f32 [patches, 4]: want first and last for rows without positions"},
      {[](Recorder& r) { attention(floats(r, "q", 4, 1, kPatches), r.paged_state("kv", 1, 4, 4, 0), {}); },
       "attention: q is f32 [patches, 4]: want rows that have a position over a cache"},
      {[](Recorder& r) { rope(floats(r, "x", 6, 1, kPatches), r.rope_table({.inverse_frequencies = {1}})); },
       "rope: x is f32 [patches, 6]: want rows that have a position, of the step or wanted"},
      {[](Recorder& r) { route(floats(r, "x", 4), {.k = 5}); }, "route: k is 5: want 1 to the 4 columns of logits"},
      {[](Recorder& r) { route(floats(r, "x", 4), {.k = 0}); }, "a value is i32 [rows, 0]: want 1 to 16777216 columns"},
      {[](Recorder& r) { route(floats(r, "x", 4), {.k = 2, .per_expert_scale = r.weight("s", {.columns = 3})}); },
       "route: per_expert_scale s is [1, 3]: want [1, 4]"},
      {[](Recorder& r) { gather(floats(r, "x", 4, 1, kWanted), integers(r, "wanted", 1, kWanted)); },
       "gather: x is f32 [wanted, 4]: want one row for each of the step"},
      {[](Recorder& r) { gather(floats(r, "x", 4), integers(r, "other", 1, kWanted)); },
       "gather: index is some value: want the program's input wanted"},
      {[](Recorder& r) { gather(floats(r, "x", 4, 1, kPatches), floats(r, "i", 1, 1, kPatches)); },
       "gather: index is f32 [patches, 1]: want i32"},
      {[](Recorder& r) { scatter(floats(r, "x", 4), integers(r, "i", 2), floats(r, "y", 4, 1, kPatches)); },
       "scatter: index is i32 [rows, 2]: want i32 [rows, 1]"},
      {[](Recorder& r) { scatter(floats(r, "x", 4), integers(r, "i"), floats(r, "y", 3, 1, kPatches)); },
       "scatter: rows is f32 [patches, 3]: want 4 columns as x"},
      {[](Recorder& r) { pool(floats(r, "x", 4, 3), floats(r, "s", 2)); },
       "pool: shares is f32 [rows, 2]: want one for each head of f32 [rows, 3, 4]"},
      {[](Recorder& r) { pool(floats(r, "x", 4, 3), kNan); }, "pool: factor is nan: want a finite number"},
      {[](Recorder& r) { slice(floats(r, "x", 4, 3), 2, 2); },
       "slice: heads 2 to 4 of f32 [rows, 3, 4]: want a part of its 3"},
      {[](Recorder& r) { sample(floats(r, "x", 4)); },
       "sample: logits is f32 [rows, 4]: want f32 [wanted, vocabulary]"},
      {[](Recorder& r) { heads(floats(r, "x", 10), 4); },
       "heads: x is f32 [rows, 10]: want one head that divides into 4"},
      {[](Recorder& r) { heads(floats(r, "x", 10), 0); },
       "heads: x is f32 [rows, 10]: want one head that divides into 0"},
      {[](Recorder& r) { fold(floats(r, "x", 10, 1, {Symbol::patches, 6}), 4); },
       "fold: x is f32 [6 patches, 10]: want one head, and rows that are whole groups of 4"},
      {[](Recorder& r) { fold(floats(r, "x", 10, 2, {Symbol::patches, 6}), 3); },
       "fold: x is f32 [6 patches, 2, 10]: want one head, and rows that are whole groups of 3"},
      {[](Recorder& r) { unfold(floats(r, "x", 10, 2, kWanted)); },
       "unfold: x is f32 [wanted, 2, 10]: want rows that are not picked out"},
  };
  for (const auto& one : cases) EXPECT_EQ(mistake(one.record), one.text);
}

// Blocks of patches: one row each, and back.
TEST(Recorder, RowsFoldIntoHeadsAndBackWithoutAnOp) {
  Recorder r;
  const Value x = floats(r, "x", 10, 1, {Symbol::patches, 12});
  const Value block = fold(x, 4);
  EXPECT_EQ(describe(block.type()), "f32 [3 patches, 4, 10]");
  EXPECT_EQ(describe(unfold(block).type()), "f32 [12 patches, 10]");
  EXPECT_EQ(describe(unfold(heads(x, 2)).type()), "f32 [24 patches, 5]");
  EXPECT_EQ(describe(fold(unfold(flatten(block)), 1).type()), "f32 [3 patches, 40]");
  const Result<Program> program = r.finish();
  ASSERT_TRUE(program.ok()) << program.error().text;
  EXPECT_TRUE(program->ops.empty());
  EXPECT_EQ(program->values[block.id].storage, x.id);
}

TEST(Recorder, GatherTakesOneRowOrSeveral) {
  Recorder r;
  const Value x = floats(r, "x", 4, 3, kPatches);
  EXPECT_EQ(describe(gather(x, integers(r, "one", 1, {Symbol::patches, 2})).type()), "f32 [2 patches, 3, 4]");
  EXPECT_EQ(describe(gather(x, integers(r, "five", 5)).type()), "f32 [rows, 5, 12]");
  EXPECT_TRUE(r.finish().ok());
}

TEST(Recorder, NamesWhatIsDeclaredTwice) {
  EXPECT_EQ(mistake([](Recorder& r) {
              r.weight("w", {.rows = 2, .columns = 3});
              r.weight("w", {.rows = 3, .columns = 2});
            }),
            "weight w is [3, 2]: want [2, 3]");
  EXPECT_EQ(mistake([](Recorder& r) {
              floats(r, "x", 1);
              floats(r, "x", 1);
            }),
            "input x is declared twice: want one of that name");
  EXPECT_EQ(mistake([](Recorder& r) {
              r.paged_state("kv", 1, 1, 1, 0);
              r.paged_state("kv", 1, 1, 1, 0);
            }),
            "state kv is declared twice: want one of that name");
  EXPECT_EQ(mistake([](Recorder& r) {
              const Value x = floats(r, "x", 1);
              r.name(x, "layer.0.q");
              r.name(x, "layer.0.q");
            }),
            "name layer.0.q is given twice: want one value of that name");
  EXPECT_EQ(mistake([](Recorder& r) {
              const Value x = floats(r, "x", 1);
              r.output(x, "logits");
              r.output(x, "logits");
            }),
            "output logits is given twice: want one value of that name");
  EXPECT_EQ(mistake([](Recorder& r) { floats(r, "wanted", 1); }),
            "input wanted is f32 [rows, 1]: want i32 [wanted, 1]");
}

TEST(Recorder, RefusesHostileSizes) {
  constexpr uint32_t kHuge = 0xffffffff;
  EXPECT_EQ(mistake([](Recorder& r) { r.weight("w", {.experts = kHuge, .rows = kHuge, .columns = 16777216}); }),
            "weight w is 4294967295 x [4294967295, 16777216]: want 1 to 16777216 columns and at most 281474976710656 "
            "elements");
  EXPECT_EQ(mistake([](Recorder& r) { r.weight("w", {.rows = 0, .columns = 4}); }),
            "weight w is [0, 4]: want 1 to 16777216 columns and at most 281474976710656 elements");
  EXPECT_EQ(mistake([](Recorder& r) { r.paged_state("kv", kHuge, kHuge, 1, 0); }),
            "state kv has 4294967295 heads of 4294967295 and 1: want 1 to 16777216 columns");
  EXPECT_EQ(mistake([](Recorder& r) { floats(r, "x", kHuge, kHuge); }),
            "a value is f32 [rows, 4294967295, 4294967295]: want 1 to 16777216 columns");
  EXPECT_EQ(mistake([](Recorder& r) { linear(floats(r, "x", 4), r.weight("w", {.rows = kHuge, .columns = 4})); }),
            "a value is f32 [rows, 4294967295]: want 1 to 16777216 columns");
}

TEST(Recorder, GatedMlpIsABlockOfItsPlainOps) {
  Recorder r;
  const Value x = floats(r, "x", 8);
  const Value out =
      gated_mlp(x, r.weight("gate", {.rows = 12, .columns = 8}), r.weight("up", {.rows = 12, .columns = 8}),
                r.weight("down", {.rows = 8, .columns = 12}), ActivationKind::gelu_tanh);
  EXPECT_EQ(out.type(), x.type());
  const Result<Program> program = r.finish();
  ASSERT_TRUE(program.ok()) << program.error().text;
  ASSERT_EQ(program->blocks.size(), 1u);
  EXPECT_EQ(program->blocks[0].kind, BlockKind::gated_mlp);
  EXPECT_EQ(program->blocks[0].first_op, 0u);
  EXPECT_EQ(program->blocks[0].end_op, 4u);
}

TEST(Recorder, RefusesABlockOfOtherOps) {
  EXPECT_EQ(mistake([](Recorder& r) {
              r.begin_block(BlockKind::qkv);
              r.end_block();
            }),
            "block qkv has other ops: want linears of one input");
  EXPECT_EQ(mistake([](Recorder& r) {
              const Value x = floats(r, "x", 8);
              const Weight w = r.weight("w", {.rows = 8, .columns = 8});
              r.begin_block(BlockKind::qkv);
              linear(linear(x, w), w);
              r.end_block();
            }),
            "block qkv has other ops: want linears of one input");
  EXPECT_EQ(mistake([](Recorder& r) {
              r.begin_block(BlockKind::moe);
              route(floats(r, "x", 8), {.k = 2});
              r.end_block();
            }),
            "block moe has other ops: want route, experts");
  EXPECT_EQ(mistake([](Recorder& r) {
              const Value x = floats(r, "x", 8);
              r.begin_block(BlockKind::gated_mlp);
              add(x, x);
              r.end_block();
            }),
            "block gated_mlp has other ops: want linear gate, linear up, gated_activation, linear down");
}

}  // namespace
}  // namespace sluice
