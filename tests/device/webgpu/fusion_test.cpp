// Which neighbouring ops become one dispatch, by programs of a few ops.
#include "device/webgpu/fusion.h"

#include <gtest/gtest.h>

#include <functional>

#include "graph/recorder.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kWidth = 32;

Value rows(Recorder& r, const char* name, uint32_t width = kWidth) { return r.input(name, {.width = width}); }
Weight matrix(Recorder& r, const char* name, uint32_t outputs, uint32_t columns = kWidth) {
  return r.weight(name, {.rows = outputs, .columns = columns});
}

std::vector<Run> runs_of(const std::function<void(Recorder&)>& record) {
  Recorder r;
  record(r);
  const Result<Program> program = r.finish();
  EXPECT_TRUE(program.ok()) << program.error().text;
  return program ? find_runs(*program) : std::vector<Run>();
}

void expect_run(const Run& run, RunKind kind, uint32_t first_op, uint32_t rows_end, uint32_t end_op) {
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

TEST(Fusion, OfManyOutputsTheyDoNot) {
  const auto runs = runs_of([](Recorder& r) {
    const Value x = rms_norm(add(rows(r, "a"), rows(r, "b")), 1e-6f);
    r.output(linear(x, matrix(r, "vocabulary", 100000)), "out");
  });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::rows, 0, 0, 2);
}

TEST(Fusion, OfAnotherRowTheyDoNot) {
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
TEST(Fusion, AGateOfTheRowItselfDoesNot) {
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

TEST(Fusion, QueriesThatOthersReadAreMadeBefore) {
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

TEST(Fusion, AConvolutionIsCutAndNormedWhereItIsMade) {
  const auto runs = runs_of([](Recorder& r) { record_convolution(r, 1, false); });
  ASSERT_EQ(runs.size(), 1u);
  expect_run(runs[0], RunKind::short_conv, 0, 0, 5);
}

TEST(Fusion, AConvolutionThatOthersReadIsMadeAlone) {
  for (const auto& run : runs_of([](Recorder& r) { record_convolution(r, 1, true); }))
    EXPECT_NE(run.kind, RunKind::short_conv);
}

TEST(Fusion, AConvolutionWhoseGatesReadItIsMadeAlone) {
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

TEST(Fusion, AConvolutionOfWhichChannelsAreLeftOutIsMadeAlone) {
  for (const auto& run : runs_of([](Recorder& r) { record_convolution(r, 2, false); }))
    EXPECT_NE(run.kind, RunKind::short_conv);
}

}  // namespace
}  // namespace sluice::webgpu
