// What each op means, against numbers worked out by hand or by Python's math.
#include <cmath>

#include "reference_run.h"

namespace sluice {
namespace {

TEST(ReferenceOps, EmbedPicksAndScalesRows) {
  ReferenceRun run;
  const Weight table = run.weight("t", {.rows = 3, .columns = 2}, {1, 2, 3, 4, 5, 6});
  run.recorder.output(embed(run.integers("tokens"), table, 10.0f), "out");
  run.begin(3);
  run.set_integers(0, {2, 0, 2});
  expect_near(run.output(), {50, 60, 10, 20, 50, 60});
}

TEST(ReferenceOps, LinearMultipliesByTheTransposedWeight) {
  ReferenceRun run;
  const Weight w = run.weight("w", {.rows = 2, .columns = 3}, {1, 2, 3, 4, 5, 6});
  run.recorder.output(linear(run.input("x", 3), w), "out");
  run.begin(2);
  run.set(0, {1, 0, -1, 2, 2, 2});
  expect_near(run.output(), {-2, -2, 12, 30});
}

TEST(ReferenceOps, LinearAddsTheAdapterOfEachRowsSlot) {
  ReferenceRun run;
  run.recorder.take_adapters({.slots = 2, .rank = 2});
  const Weight w = run.weight("w", {.rows = 2, .columns = 3}, {1, 2, 3, 4, 5, 6});
  run.weight("w.adapter_a", {.experts = 2, .rows = 2, .columns = 3}, {1, 0, 0, 0, 1, 0, /**/ 1, 1, 1, 0, 0, 2});
  run.weight("w.adapter_b", {.experts = 2, .rows = 2, .columns = 2}, {10, 0, 0, 100, /**/ 1, 1, 0, -1});
  run.recorder.output(linear(run.input("x", 3), w), "out");
  run.begin(4);
  run.set(0, {1, 0, -1, 2, 2, 2, 2, 2, 2, 2, 2, 2});
  run.set_integers(1, {1, 0, 2, 2});
  run.set(2, {0.5f, 1, 2, 0});
  // Row 0: a x = (1, 0), so b a x = (10, 0). Row 2: a x = (6, 4), so b a x = (10, -4).
  expect_near(run.output(), {-2 + 5, -2, 12, 30, 12 + 20, 30 - 8, 12, 30});
}

TEST(ReferenceOps, RmsNormDividesEachHeadByItsRoot) {
  ReferenceRun run;
  const Weight w = run.weight("w", {.columns = 3}, {1, 2, 0.5f});
  run.recorder.output(rms_norm(run.input("x", 3, 2), w, 0.5f), "out");
  run.begin(1);
  run.set(0, {1, -2, 3, 0, 0, 0});
  expect_near(run.output(), {0.4399413450640599f, -1.7597653802562396f, 0.6599120175960899f, 0, 0, 0});
}

TEST(ReferenceOps, AddMulAndScale) {
  ReferenceRun run;
  const Value a = run.input("a", 2), b = run.input("b", 2);
  run.recorder.output(add(a, b), "add");
  run.recorder.output(mul(a, b), "mul");
  run.recorder.output(scale(a, 3.0f), "factor");
  run.recorder.output(scale(a, run.weight("s", {.columns = 1}, {2}), 3.0f), "scalar");
  run.recorder.output(scale(a, run.weight("v", {.columns = 2}, {2, -1})), "vector");
  run.begin(1);
  run.set(0, {5, 7});
  run.set(1, {0.5f, -2});
  expect_near(run.output(0), {5.5f, 5});
  expect_near(run.output(1), {2.5f, -14});
  expect_near(run.output(2), {15, 21});
  expect_near(run.output(3), {30, 42});
  expect_near(run.output(4), {10, -7});
}

TEST(ReferenceOps, SoftcapAndActivations) {
  ReferenceRun run;
  const Value x = run.input("x", 5);
  run.recorder.output(softcap(x, 30.0f), "softcap");
  run.recorder.output(activation(x, ActivationKind::gelu_tanh), "gelu_tanh");
  run.recorder.output(activation(x, ActivationKind::silu), "silu");
  run.recorder.output(activation(x, ActivationKind::sigmoid), "sigmoid");
  run.begin(2);
  run.set(0, {-3, -0.5f, 0, 1, 10, 100, -1, 1e30f, -1e30f, 0});
  const std::vector<float> capped = run.output(0);
  EXPECT_FLOAT_EQ(capped[5], 29.92373902421512f);
  EXPECT_FLOAT_EQ(capped[6], -0.9996297941646859f);
  EXPECT_EQ(capped[7], 30.0f);
  std::vector<float> gelu = run.output(1), silu = run.output(2), sigmoid = run.output(3);
  EXPECT_EQ(gelu[7], 1e30f);
  EXPECT_EQ(gelu[8], 0.0f);
  EXPECT_EQ(silu[8], 0.0f);
  EXPECT_EQ(sigmoid[8], 0.0f);
  gelu.resize(5), silu.resize(5), sigmoid.resize(5);
  expect_near(gelu, {-0.0036373920817729943f, -0.15428599017485606f, 0, 0.8411919906082768f, 10});
  expect_near(silu, {-0.14227761953270035f, -0.1887703343990727f, 0, 0.7310585786300049f, 9.999546021312975f});
  expect_near(sigmoid, {0.04742587317756678f, 0.3775406687981454f, 0.5f, 0.7310585786300049f, 0.9999546021312976f});
}

// Python: math.erf.
TEST(ReferenceOps, ActivationsOfTowers) {
  ReferenceRun run;
  const Value x = run.input("x", 5);
  run.recorder.output(activation(x, ActivationKind::relu), "relu");
  run.recorder.output(activation(x, ActivationKind::gelu), "gelu");
  run.begin(1);
  run.set(0, {-3, -0.5f, 0, 1, 10});
  expect_near(run.output(0), {0, 0, 0, 1, 10});
  expect_near(run.output(1), {-0.00404969409489031f, -0.15426876936299344f, 0, 0.8413447460685429f, 10});
}

TEST(ReferenceOps, LayerNormTakesTheMeanAway) {
  ReferenceRun run;
  const Value x = run.input("x", 3);
  const Weight weight = run.weight("w", {.columns = 3}, {1, 2, -1}),
               bias = run.weight("b", {.columns = 3}, {0.5f, 0, 1});
  run.recorder.output(layer_norm(x, weight, bias, 0.25f), "both");
  run.recorder.output(layer_norm(x, Weight{}, Weight{}, 0.25f), "neither");
  run.begin(1);
  run.set(0, {1, 2, 6});
  expect_near(run.output(0), {-0.4019752336033946f, -0.9019752336033946f, -0.3529628504050919f});
  expect_near(run.output(1), {-0.9019752336033946f, -0.4509876168016973f, 1.352962850405092f});
}

TEST(ReferenceOps, BiasesAndBounds) {
  ReferenceRun run;
  const Value x = run.input("x", 2, 2);
  run.recorder.output(add(x, run.weight("bias", {.columns = 4}, {1, 2, 3, 4})), "biased");
  const Weight low = run.weight("low", {.columns = 1}, {-1}), high = run.weight("high", {.columns = 1}, {2});
  run.recorder.output(clamp(x, low, high), "clamped");
  run.begin(2);
  run.set(0, {-3, 0, 1, 5, 10, 20, 30, -0.5f});
  expect_near(run.output(0), {-2, 2, 4, 9, 11, 22, 33, 3.5f});
  expect_near(run.output(1), {-1, 0, 1, 2, 2, 2, 2, -0.5f});
}

TEST(ReferenceOps, PoolAddsHeads) {
  ReferenceRun run;
  const Value x = run.input("x", 2, 3);
  run.recorder.output(pool(x, 0.5f), "halves");
  run.recorder.output(pool(x, run.input("shares", 3)), "shared");
  run.begin(1);
  run.set(0, {1, 2, 3, 4, 5, 6});
  run.set(1, {1, -1, 2});
  expect_near(run.output(0), {4.5f, 6});
  expect_near(run.output(1), {8, 10});
}

TEST(ReferenceOps, GatedActivationActsOnTheGateOnly) {
  ReferenceRun run;
  const Value gate = run.input("gate", 2), up = run.input("up", 2);
  run.recorder.output(gated_activation(gate, up, ActivationKind::silu), "out");
  run.begin(1);
  run.set(0, {1, -0.5f});
  run.set(1, {10, 2});
  expect_near(run.output(), {7.310585786300049f, -0.3775406687981454f});
}

// A quarter turn takes (a, b) to (-b, a).
TEST(ReferenceOps, RopeTurnsHalvesOrNeighbours) {
  const float quarter = 1.57079632679f;
  const std::pair<Pairing, std::vector<float>> turned[] = {
      {Pairing::halves, {1, 2, 3, 4, 5, -3, 2, 1, 4, 5}},
      {Pairing::adjacent, {1, 2, 3, 4, 5, -2, 1, 3, 4, 5}},
      {Pairing::adjacent_to_halves, {1, 3, 2, 4, 5, -2, 3, 1, 4, 5}}};
  for (const auto& [pairing, expected] : turned) {
    ReferenceRun run;
    const RopeId table = run.recorder.rope_table({.inverse_frequencies = {quarter, 0}, .pairing = pairing});
    run.recorder.output(rope(run.input("x", 5), table), "out");
    run.begin(2);
    run.set(0, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5});
    expect_near(run.output(), expected);
  }
}

TEST(ReferenceOps, RopeMayTurnTheLastElementsOfAHead) {
  ReferenceRun run;
  const RopeId table = run.recorder.rope_table({.inverse_frequencies = {1.57079632679f}});
  run.recorder.output(rope(run.input("x", 4), table, 2), "out");
  run.begin(2);
  run.set(0, {1, 2, 3, 4, 1, 2, 3, 4});
  expect_near(run.output(), {1, 2, 3, 4, 1, 2, -4, 3});
}

struct TinyAttention {
  ReferenceRun run;
  explicit TinyAttention(const AttentionOptions& options) {
    const Value q = run.input("q", 2), k = run.input("k", 2), v = run.input("v", 1);
    State kv = append(run.recorder.paged_state("kv", 1, 2, 1, 0), k, v);
    run.recorder.output(attention(q, kv, options), "out");
    run.begin(3);
    run.set(0, {1, 2, 1, 2, 1, 2});
    run.set(1, {1, 0, 0, 1, 1, 1});
    run.set(2, {10, 20, 30});
  }
};

TEST(ReferenceOps, AttentionSeesItsOwnAndEarlierPositions) {
  const std::vector<float> out = TinyAttention({.scale = 0.5f}).run.output();
  EXPECT_EQ(out[0], 10.0f);
  EXPECT_FLOAT_EQ(out[1], 10 + 10 / (1 + std::exp(-0.5f)));
  EXPECT_FLOAT_EQ(out[2], 23.201566678298065f);
}

TEST(ReferenceOps, AWindowCountsTheOwnPosition) {
  EXPECT_FLOAT_EQ(TinyAttention({.scale = 0.5f, .window = 2}).run.output()[2], 26.224593312018545f);
  EXPECT_FLOAT_EQ(TinyAttention({.scale = 0.5f, .window = 1}).run.output()[2], 30.0f);
}

TEST(ReferenceOps, ScoresPassThroughSoftcapAfterTheScale) {
  EXPECT_FLOAT_EQ(TinyAttention({.scale = 0.5f, .softcap = 2.0f}).run.output()[2], 22.501798371106887f);
}

TEST(ReferenceOps, QueryHeadsShareKeyHeadsInGroups) {
  ReferenceRun run;
  const Value q = run.input("q", 1, 4), k = run.input("k", 1, 2), v = run.input("v", 1, 2);
  const State kv = append(run.recorder.paged_state("kv", 2, 1, 1, 0), k, v);
  run.recorder.output(attention(q, kv, {}), "out");
  run.begin(1);
  run.set(0, {1, 1, 1, 1});
  run.set(1, {1, 1});
  run.set(2, {3, 8});
  expect_near(run.output(), {3, 3, 8, 8});
}

// Two heads, whose keys are one number of the latent and the two shared ones; numbers of a script in f64.
// Queries of zero weigh all that they see alike: the result is the mean of those values.
TEST(ReferenceOps, ARowSeesFromItsFirstToItsLastPosition) {
  ReferenceRun run;
  const Value q = run.input("q", 1), k = run.input("k", 1), v = run.input("v", 1);
  const Value first = run.integers("first"), last = run.integers("last");
  const State kv = append(run.recorder.paged_state("kv", 1, 1, 1, 0), k, v);
  run.recorder.output(attention(q, kv, {.first = first, .last = last}), "cached");
  run.recorder.output(attention(q, kv, {.window = 1, .last = last}), "from a window");
  run.recorder.output(attention(q, {.key = k, .value = v}, {.first = first, .last = last}), "own");
  run.recorder.output(attention(q, {.key = k, .value = v}, {}), "causal");
  run.begin(4);
  run.set(0, {0, 0, 0, 0});
  run.set(1, {3, -1, 2, 5});
  run.set(2, {10, 20, 40, 80});
  run.set_integers(3, {0, 1, 1, 0});
  run.set_integers(4, {0, 2, 2, 3});
  expect_near(run.output(0), {10, 30, 30, 37.5f});
  expect_near(run.output(1), {10, 30, 40, 80});
  expect_near(run.output(2), {10, 30, 30, 37.5f});
  expect_near(run.output(3), {10, 15, 70 / 3.0f, 37.5f});
}

TEST(ReferenceOps, AttentionOverLatentsExpandsThem) {
  for (const bool transposed : {false, true}) {
    ReferenceRun run;
    const Value q = run.input("q", 3, 2), latent = run.input("latent", 2), shared = run.input("shared", 2);
    const Weight key = transposed ? run.weight("key", {.experts = 2, .rows = 2, .columns = 1}, {1, 2, -1, 0.5f})
                                  : run.weight("key", {.experts = 2, .columns = 2}, {1, 2, -1, 0.5f});
    const Weight value = run.weight("value", {.experts = 2, .columns = 2}, {1, 1, 2, -2});
    const Expansion weights{.key = key.id, .value = value.id, .key_transposed = transposed};
    const State kv = append(run.recorder.paged_state("kv", 1, 2, 2, 0), shared, latent);
    run.recorder.output(attention(q, kv, {.scale = 0.5f, .expand = weights}), "out");
    run.recorder.output(expand(latent, shared, weights).key, "keys");
    run.begin(2);
    run.set(0, {1, 0.5f, 0.25f, 2, -1, 0.5f, 1, 0.5f, 0.25f, 2, -1, 0.5f});
    run.set(1, {1, 0.5f, 0.25f, -1});
    run.set(2, {0.5f, 1, -1, 2});
    expect_near(run.output(0), {1.5f, 1, 1.2599461636222848f, 2.0965878679450074f});
    expect_near(run.output(1), {2, 0.5f, 1, -0.75f, 0.5f, 1, -1.75f, -1, 2, -0.75f, -1, 2});
  }
}

TEST(ReferenceOps, RouteChoosesByBiasedScoresInTheBestGroupsAndWeighsByPlainOnes) {
  ReferenceRun run;
  const Weight bias = run.weight("b", {.columns = 8}, {-0.5f, 0, 0.25f, 0.25f, 0, 0, 0.5f, -0.4f});
  const Routed routed =
      route(run.input("logits", 8),
            {.k = 3, .scoring = Scoring::sigmoid, .scale = 2.5f, .groups = 4, .groups_used = 2, .bias = bias});
  run.recorder.output(routed.index, "index");
  run.recorder.output(routed.weight, "weight");
  run.begin(1);
  run.set(0, {2, -1, 0.5f, 0.25f, 1, 1, -3, 3});
  EXPECT_EQ(run.output<int32_t>(0), (std::vector<int32_t>{2, 3, 4}));
  expect_near(run.output(1), {0.8123155338860503f, 0.7336458489159494f, 0.9540386171980004f});
}

TEST(ReferenceOps, RouteTakesTheLargestAndOfEqualOnesTheFirst) {
  ReferenceRun run;
  const Weight scale = run.weight("s", {.columns = 4}, {1, 1, 1, 2});
  const Value logits = run.input("logits", 4);
  const Routed normalised = route(logits, {.k = 3, .per_expert_scale = scale});
  const Routed plain = route(logits, {.k = 2, .normalise = false});
  run.recorder.output(normalised.index, "index");
  run.recorder.output(normalised.weight, "weight");
  run.recorder.output(plain.weight, "plain");
  run.begin(1);
  run.set(0, {1, 3, 2, 3});
  EXPECT_EQ(run.output<int32_t>(0), (std::vector<int32_t>{1, 3, 2}));
  expect_near(run.output(1), {0.4223187982515182f, 2 * 0.4223187982515182f, 0.1553624034969636f});
  expect_near(run.output(2), {0.3994863046503028f, 0.3994863046503028f});
}

// Two of three experts of one inner column, silu; the numbers of the third would show.
TEST(ReferenceOps, ExpertsAddTheChosenOnesByTheirWeights) {
  ReferenceRun run;
  const Value x = run.input("x", 2);
  const Routed routed{.index = run.integers("index", 2), .weight = run.input("weight", 2)};
  const Weight gate = run.weight("gate", {.experts = 3, .columns = 2}, {1, 1, 100, 100, 0, 1});
  const Weight up = run.weight("up", {.experts = 3, .columns = 2}, {1, 0, 100, 100, 2, 0});
  const Weight down = run.weight("down", {.experts = 3, .rows = 2, .columns = 1}, {1, 2, 100, 100, 3, -1});
  run.recorder.output(experts(x, routed, gate, up, down, ActivationKind::silu), "out");
  run.begin(1);
  run.set(0, {1, 2});
  run.set_integers(1, {2, 0});
  run.set(2, {0.75f, 0.25f});
  expect_near(run.output(), {8.641604296917766f, -1.2135300436999972f});
}

TEST(ReferenceOps, GatherAndSlicePickRowsAndHeads) {
  ReferenceRun run;
  const Value x = run.input("x", 2, 3);
  run.recorder.output(gather(x, run.integers("wanted", 1, Symbol::wanted)), "row");
  run.recorder.output(slice(x, 1, 2), "heads");
  run.begin(2);
  run.set(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  run.set_integers(1, {1});
  expect_near(run.output(0), {7, 8, 9, 10, 11, 12});
  expect_near(run.output(1), {3, 4, 5, 6, 9, 10, 11, 12});
}

TEST(ReferenceOps, RowsByTheirNumber) {
  ReferenceRun run;
  const Value x = run.input("x", 2);
  run.recorder.output(gather(x, run.integers("two", 2)), "pairs");
  const Value one = run.integers("one"), y = run.input("y", 2);
  run.recorder.output(scatter(x, one, y), "replaced");
  run.begin(3);
  run.set(0, {1, 2, 3, 4, 5, 6});
  run.set_integers(1, {2, -1, 0, 1, -1, -1});
  run.set_integers(2, {-1, 2, 0});
  run.set(3, {10, 20, 30, 40, 50, 60});
  expect_near(run.output(0), {5, 6, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0});
  expect_near(run.output(1), {1, 2, 50, 60, 10, 20});
}

TEST(ReferenceOps, EmbedTakesSeveralRows) {
  ReferenceRun run;
  const Weight table = run.weight("table", {.rows = 3, .columns = 2}, {1, 2, 3, 4, 5, 6});
  run.recorder.output(embed(run.integers("ids", 2), table, 2.0f), "rows");
  run.begin(2);
  run.set_integers(0, {2, 0, 1, 1});
  expect_near(run.output(), {10, 12, 2, 4, 6, 8, 6, 8});
}

}  // namespace
}  // namespace sluice
