// Which neighbouring ops a device may fuse, by programs of a few ops.
#include "graph/fusion.h"

#include <gtest/gtest.h>

#include <functional>

#include "graph/recorder.h"

namespace sluice {
namespace {

constexpr uint32_t kWidth = 32;

Value rows(Recorder& r, const char* name, uint32_t width = kWidth) { return r.input(name, {.width = width}); }
Weight matrix(Recorder& r, const char* name, uint32_t outputs, uint32_t columns = kWidth) {
  return r.weight(name, {.rows = outputs, .columns = columns});
}

Value transposed(Value x, Weight weight) {
  Recorder& r = *x.recorder;
  LinearTransposed op{.x = x.id, .weight = weight.id};
  op.out = r.new_value(op.result(r.program())).id;
  r.record(op);
  return {&r, op.out};
}

constexpr FusionLimits kAll{.row_columns = 8192,
                            .head_chains = 4,
                            .attention = true,
                            .linears = 4,
                            .gated = true,
                            .outputs_of_rows = 32768,
                            .conv_parts = 4};

// Kinds and ops alone: what the runs point to is gone with its program.
std::vector<FusedRun> runs_of(const std::function<void(Recorder&)>& record, const FusionLimits& limits = kAll) {
  Recorder r;
  record(r);
  const Result<Program> program = r.finish();
  EXPECT_TRUE(program.ok()) << program.error().text;
  return program ? find_runs(*program, limits) : std::vector<FusedRun>();
}

void expect_run(const FusedRun& run, RunKind kind, uint32_t first_op, uint32_t rows_end, uint32_t end_op) {
  EXPECT_EQ(run.kind, kind);
  EXPECT_EQ(run.first_op, first_op);
  EXPECT_EQ(run.rows_end, rows_end);
  EXPECT_EQ(run.end_op, end_op);
}

TEST(Fusion, ProductsBeginWithTheNormOfTheirRow) {
  const auto runs = runs_of([](Recorder& r) {
    const Value sum = add(rows(r, "a"), rows(r, "b"));
    const Value x = rms_norm(sum, 1e-6f);
    r.output(add(linear(x, matrix(r, "q", kWidth)), linear(x, matrix(r, "k", kWidth))), "out");
    r.output(sum, "sum");
  });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::linears, 0, 2, 4);
}

TEST(Fusion, BiasResidualAndLayerNormAreOneRun) {
  const auto runs = runs_of([](Recorder& r) {
    const Value sum = add(rows(r, "x"), add(linear(rows(r, "a"), matrix(r, "o", kWidth)), matrix(r, "bias", 1)));
    const Value x = layer_norm(sum, matrix(r, "weight", 1), Weight{}, 1e-6f);
    r.output(linear(x, matrix(r, "up", kWidth)), "out");
    r.output(sum, "sum");
  });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::linears, 1, 4, 5);
}

TEST(Fusion, AProductTakesTheSumOrTheScalingOfItsResults) {
  const auto record = [](bool read_elsewhere) {
    return [=](Recorder& r) {
      const Value x = rows(r, "x");
      const Value inner = scale(linear(x, matrix(r, "a", 4)), 2.0f);
      const Value product = linear(inner, matrix(r, "b", kWidth, 4));
      r.output(softcap(add(rows(r, "y"), product), 1.0f), "out");
      if (read_elsewhere) r.output(product, "product");
    };
  };
  const FusionLimits limits{.row_columns = 8192, .finished = true};
  const auto runs = runs_of(record(false), limits);
  ASSERT_EQ(runs.size(), 2u);
  expect_run(runs[0], RunKind::finished, 0, 0, 2);
  expect_run(runs[1], RunKind::finished, 2, 2, 4);
  EXPECT_EQ(runs_of(record(true), limits).size(), 1u);
}

// W x + B (scale (A x)), as training records it.
TEST(Fusion, AnAdapterJoinsItsProduct) {
  const auto record = [](bool read_elsewhere, uint32_t rank) {
    return [=](Recorder& r) {
      const Value x = rows(r, "x");
      const Value product = linear(x, matrix(r, "w", kWidth));
      const Value inner = scale(linear(x, matrix(r, "a", rank)), 2.0f);
      r.output(softcap(add(product, linear(inner, matrix(r, "b", kWidth, rank))), 1.0f), "out");
      r.output(inner, "inner");
      if (read_elsewhere) r.output(product, "product");
    };
  };
  const FusionLimits limits{.row_columns = 8192, .finished = true, .joined = true};
  const auto runs = runs_of(record(false, 4), limits);
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::joined, 0, 0, 5);
  ASSERT_TRUE(runs[0].joined && runs[0].joined->inner);
  EXPECT_EQ(runs[0].joined->wide_op, 0u);
  EXPECT_EQ(runs[0].joined->narrow_op, 3u);
  EXPECT_EQ(runs[0].joined->finish.plus, kNone);
  EXPECT_EQ(runs[0].joined->inner->factor, 2.0f);
  for (const auto& apart : {runs_of(record(true, 4), limits), runs_of(record(false, kWidth + 4), limits)}) {
    ASSERT_EQ(apart.size(), 2u);
    expect_run(apart[0], RunKind::finished, 1, 1, 3);
    expect_run(apart[1], RunKind::finished, 3, 3, 5);
  }
}

// A^T d_inner, with or without what is known of the gradient, and W^T d.
TEST(Fusion, AGradientOfAnAdapterJoinsThatOfItsProduct) {
  const FusionLimits limits{.row_columns = 8192, .finished = true, .joined = true};
  for (const uint32_t known_ops : {0u, 1u}) {
    const auto runs = runs_of(
        [&](Recorder& r) {
          Value sum = transposed(rows(r, "d_inner", 4), matrix(r, "a", 4));
          if (known_ops > 0) sum = add(rows(r, "known"), sum);
          r.output(softcap(add(sum, transposed(rows(r, "d"), matrix(r, "w", kWidth))), 1.0f), "out");
        },
        limits);
    ASSERT_EQ(runs.size(), 1u);
    expect_run(runs[0], RunKind::joined, 0, 0, 3 + known_ops);
    ASSERT_TRUE(runs[0].joined && !runs[0].joined->inner);
    EXPECT_EQ(runs[0].joined->narrow_op, 0u);
    EXPECT_EQ(runs[0].joined->wide_op, 1u + known_ops);
    EXPECT_EQ(runs[0].joined->finish.plus != kNone, known_ops > 0);
  }
}

TEST(Fusion, AdaptersChangeNoRun) {
  for (const uint32_t slots : {0u, 4u}) {
    const auto runs = runs_of([&](Recorder& r) {
      r.take_adapters({.slots = slots, .rank = 8});
      const Value x = rms_norm(add(rows(r, "a"), rows(r, "b")), 1e-6f);
      const Value y = rms_norm(add(linear(x, matrix(r, "q", kWidth)), linear(x, matrix(r, "k", kWidth))), 1e-6f);
      const Value gate = linear(y, matrix(r, "gate", kWidth)), up = linear(y, matrix(r, "up", kWidth));
      r.output(gated_activation(gate, up, ActivationKind::silu), "out");
    });
    ASSERT_EQ(runs.size(), 2u) << slots;
    expect_run(runs[0], RunKind::linears, 0, 2, 4);
    expect_run(runs[1], RunKind::gated, 4, 6, 9);
  }
}

TEST(Fusion, ProductsOfManyOutputsDoNotBeginWithTheirRow) {
  const auto runs = runs_of([](Recorder& r) {
    const Value x = rms_norm(add(rows(r, "a"), rows(r, "b")), 1e-6f);
    r.output(linear(x, matrix(r, "vocabulary", 100000)), "out");
  });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::rows, 0, 0, 2);
}

TEST(Fusion, ProductsDoNotBeginWithAnotherRow) {
  const auto runs = runs_of([](Recorder& r) {
    const Value a = rows(r, "a");
    const Value x = rms_norm(add(a, rows(r, "b")), 1e-6f);
    r.output(add(linear(a, matrix(r, "w", kWidth)), x), "out");
  });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::rows, 0, 0, 2);
}

TEST(Fusion, AGateBeginsWithItsRow) {
  const auto runs = runs_of([](Recorder& r) {
    const Value x = rms_norm(rows(r, "a"), 1e-6f);
    const Value gate = linear(x, matrix(r, "gate", 64)), up = linear(x, matrix(r, "up", 64));
    r.output(gated_activation(gate, up, ActivationKind::silu), "out");
  });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::gated, 0, 1, 4);
}

// What it is multiplied with would have to be read while it is written.
TEST(Fusion, AGateThatReadsTheRowAgainDoesNotBeginWithIt) {
  const auto runs = runs_of([](Recorder& r) {
    const Value x = rms_norm(add(rows(r, "a"), rows(r, "b")), 1e-6f);
    const Value gated = gated_activation(linear(x, matrix(r, "gate", kWidth)), x, ActivationKind::silu);
    r.output(softcap(gated, 1.0f), "out");
  });
  ASSERT_EQ(runs.size(), 2u);
  expect_run(runs[0], RunKind::rows, 0, 0, 2);
  expect_run(runs[1], RunKind::gated, 2, 2, 4);
}

// Queries alone, normed and turned, then attention.
void record_queries(Recorder& r, bool read_elsewhere) {
  const RopeId table = r.rope_table({.inverse_frequencies = {1.0f, 0.5f}});
  const State state = r.paged_state("cache", 1, 4, 4, 0);
  const Value q = rope(rms_norm(heads(rows(r, "q", 8), 2), 1e-6f), table);
  r.output(attention(q, state, {.scale = 1.0f}), "out");
  if (read_elsewhere) r.output(q, "q");
}

TEST(Fusion, AttentionMakesItsOwnQueries) {
  const auto runs = runs_of([](Recorder& r) { record_queries(r, false); });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::heads, 0, 2, 3);
}

TEST(Fusion, QueriesThatOthersReadAreNotFusedIntoAttention) {
  const auto runs = runs_of([](Recorder& r) { record_queries(r, true); });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::heads, 0, 0, 2);
}

// A convolution, its 16 channels cut into heads of 4, some of which are normed, and the gates of the delta rule.
void record_convolution(Recorder& r, uint32_t slice_stride, bool read_elsewhere) {
  const State inputs = r.slot_state("inputs", 1, 3, 16);
  const Value mixed = heads(short_conv(rows(r, "x", 16), inputs, matrix(r, "conv1d", 16, 4)).out, 4);
  const Value q = slice(mixed, 0, 2, slice_stride), v = slice(mixed, 2, 2);
  const DeltaGate gate =
      delta_gates(rows(r, "a", 2), rows(r, "b", 2), matrix(r, "rate", 1, 2), matrix(r, "bias", 1, 2));
  r.output(l2_norm(q, 1e-6f), "q");
  r.output(v, "v");
  r.output(gate.decay, "decay");
  r.output(gate.beta, "beta");
  if (read_elsewhere) r.output(mixed, "mixed");
}

TEST(Fusion, AConvolutionIncludesItsSlicesAndNorms) {
  const auto runs = runs_of([](Recorder& r) { record_convolution(r, 1, false); });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::short_conv, 0, 0, 5);
}

TEST(Fusion, AConvolutionThatOthersReadIsNotFused) {
  for (const auto& run : runs_of([](Recorder& r) { record_convolution(r, 1, true); }))
    EXPECT_NE(run.kind, RunKind::short_conv);
}

TEST(Fusion, AConvolutionWhoseGatesReadItIsNotFused) {
  const auto runs = runs_of([](Recorder& r) {
    const State inputs = r.slot_state("inputs", 1, 3, 16);
    const Value mixed = heads(short_conv(rows(r, "x", 16), inputs, matrix(r, "conv1d", 16, 4)).out, 4);
    const Value q = slice(mixed, 0, 2), a = flatten(slice(mixed, 2, 2));
    const DeltaGate gate = delta_gates(a, rows(r, "b", 8), matrix(r, "rate", 1, 8), matrix(r, "bias", 1, 8));
    r.output(l2_norm(q, 1e-6f), "q");
    r.output(gate.decay, "decay");
    r.output(gate.beta, "beta");
  });
  for (const auto& run : runs) EXPECT_NE(run.kind, RunKind::short_conv);
}

TEST(Fusion, AConvolutionWithUnusedChannelsIsNotFused) {
  for (const auto& run : runs_of([](Recorder& r) { record_convolution(r, 2, false); }))
    EXPECT_NE(run.kind, RunKind::short_conv);
}

// A gate and its `up` behind the norm of their row, then a convolution and queries with their attention.
void record_every_kind(Recorder& r) {
  const Value x = rms_norm(rows(r, "row"), 1e-6f);
  // One after the other: arguments of one call are recorded in any order.
  const Value gate = linear(x, matrix(r, "gate", 64)), up = linear(x, matrix(r, "up", 64));
  r.output(gated_activation(gate, up, ActivationKind::silu), "gated");
  record_convolution(r, 1, false);
  record_queries(r, false);
}

TEST(Fusion, ADeviceWithoutFusedKernelsGetsNoRuns) { EXPECT_TRUE(runs_of(record_every_kind, {}).empty()); }

TEST(Fusion, FindsARunOfEachKind) {
  const auto runs = runs_of(record_every_kind);
  ASSERT_EQ(runs.size(), 3u);
  expect_run(runs[0], RunKind::gated, 0, 1, 4);
  expect_run(runs[1], RunKind::short_conv, 4, 4, 9);
  expect_run(runs[2], RunKind::heads, 9, 11, 12);
}

TEST(Fusion, AKindThatADeviceLacksIsLeftOut) {
  FusionLimits limits = kAll;
  limits.gated = false;
  limits.conv_parts = 0;
  limits.attention = false;
  const auto runs = runs_of(record_every_kind, limits);
  ASSERT_EQ(runs.size(), 3u);
  expect_run(runs[0], RunKind::linears, 0, 1, 3);
  expect_run(runs[1], RunKind::heads, 5, 5, 7);  // the convolution's slices
  expect_run(runs[2], RunKind::heads, 9, 9, 11);
}

TEST(Fusion, ProductsMayBeginWithRowsWhereThereIsAKernelForThem) {
  FusionLimits limits = kAll;
  limits.outputs_of_rows = 0;
  const auto apart = runs_of(record_every_kind, limits);
  ASSERT_EQ(apart.size(), 3u);
  expect_run(apart[0], RunKind::gated, 1, 1, 4);
  limits = kAll;
  limits.gated = false;
  limits.linears = 0;
  for (const FusedRun& run : runs_of(record_every_kind, limits)) EXPECT_GE(run.first_op, 4u);
}

TEST(Fusion, ARunNamesItsOperands) {
  Recorder r;
  record_every_kind(r);
  const Result<Program> program = r.finish();
  ASSERT_TRUE(program.ok());
  const auto runs = find_runs(*program, kAll);
  ASSERT_EQ(runs.size(), 3u);
  ASSERT_TRUE(runs[0].gated && runs[1].conv && runs[2].heads);
  EXPECT_EQ(runs[0].gated->gate, &std::get<Linear>(program->ops[1]));
  EXPECT_EQ(runs[0].gated->up, &std::get<Linear>(program->ops[2]));
  EXPECT_EQ(runs[1].conv->conv, &std::get<ShortConv>(program->ops[4]));
  EXPECT_EQ(runs[1].conv->parts.size(), 2u);
  EXPECT_NE(runs[1].conv->gates, nullptr);
  ASSERT_EQ(runs[2].heads->chains.size(), 1u);
  EXPECT_EQ(runs[2].heads->chains[0].rope, &std::get<Rope>(program->ops[10]));
  EXPECT_EQ(runs[2].heads->end_op, 11u);
}

}  // namespace
}  // namespace sluice
