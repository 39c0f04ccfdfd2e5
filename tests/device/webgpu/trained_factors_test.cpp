// Factors that the WebGPU device trains: the numbers after some steps of AdamW are those of its formula in f64, and
// rows of the weight that later steps multiply by. Five small kernels: three seconds.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "device/webgpu/trained_layout.h"
#include "emission/adapters.h"
#include "library.h"
#include "tests/device/reference/reference_run.h"
#include "tests/train/trained_model.h"

namespace sluice {
namespace {

constexpr uint32_t kFactorRows = 37, kFactorColumns = 20;  // rows of the weight are padded
constexpr size_t kNumbers = size_t{kFactorRows} * kFactorColumns;

std::vector<float> drawn_numbers(uint32_t kind, size_t count) {
  std::vector<float> numbers(count);
  for (uint32_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(drawn(kind, i));
  return numbers;
}

// y = w x and z = u x for one row, where u has the numbers of w, and gradients of both: an input, doubled and halved.
struct FactorProgram {
  Recorder recorder;
  FloatWeights weights;
  Program program;
  ValueId y = kNone, z = kNone, gradient = kNone, other = kNone;

  FactorProgram() {
    const Value x = recorder.input("x", {.width = kFactorColumns});
    const Value given =
        recorder.input("given", {.extent = {.symbol = Symbol::one, .ratio = kFactorRows}, .width = kFactorColumns});
    const WeightShape shape{.rows = kFactorRows, .columns = kFactorColumns};
    const auto output = [&](const Value& value, const char* name) {
      recorder.output(value, name);
      return value.id;
    };
    y = output(linear(x, weights.add(recorder, "w", shape, drawn_numbers(1, kNumbers))), "y");
    z = output(linear(x, weights.add(recorder, "u", shape, drawn_numbers(1, kNumbers))), "z");
    gradient = output(scale(given, 2.0f), "gradient");
    other = output(scale(given, 0.5f), "other");
    Result<Program> finished = recorder.finish();
    EXPECT_TRUE(finished.ok()) << finished.error().text;
    program = *std::move(finished);
  }
  PlanRequest request() const {
    return {.program = &program,
            .arithmetic = Arithmetic::exact,
            .maxima = {.counts = text_counts(1, 0)},
            .weights = {{.shape = program.weights[0].shape, .format = Format::f32},
                        {.shape = program.weights[1].shape, .format = Format::f32}},
            .whole_sequences = true,
            .trained = {{.places = {{.weight = 0, .gradient = gradient}, {.weight = 1, .gradient = other}}}}};
  }
};

// The device's answer to what was started last.
void wait_for(Runner& runner, Ticket ticket) {
  for (;;) {
    const std::optional<Completion> completion = runner.poll();
    if (!completion) continue;
    ASSERT_TRUE(completion->status.ok()) << completion->status.error().text;
    if (completion->ticket == ticket) return;
  }
}

class WebGpuTrainedFactors : public testing::Test {
 protected:
  void SetUp() override {
    if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
    Device& device = *webgpu_test_device();
    ASSERT_TRUE(device.info().trains_factors);
    Result<std::unique_ptr<Plan>> plan = device.plan(test_.request());
    ASSERT_TRUE(plan.ok()) << plan.error().text;
    Result<std::unique_ptr<Runner>> placed = device.place(*std::move(plan), test_.weights, budget_);
    ASSERT_TRUE(placed.ok()) << placed.error().text;
    runner_ = *std::move(placed);
    step_ = std::make_unique<StepBuffer>(test_.program, test_.request().maxima);
    step_->reset(TokenClass::prompt, text_counts(1, 0), 1, 0);
    memory_ = runner_->trained_memory();
    ASSERT_NE(memory_, nullptr);
  }

  // A step whose gradients are 2 and 0.5 times `given`; returns w x, and expects that u x is the same.
  std::vector<float> play(const std::vector<float>& x, const std::vector<float>& given, bool adds) {
    std::ranges::copy(x, step_->input_f32(0).begin());
    std::ranges::copy(given, step_->input_f32(1).begin());
    std::vector<float> y(kFactorRows), z(kFactorRows);
    const std::array reads = {ReadRequest{.value = test_.y, .into = std::as_writable_bytes(std::span(y))},
                              ReadRequest{.value = test_.z, .into = std::as_writable_bytes(std::span(z))}};
    wait_for(*runner_, runner_->start(*step_, reads, {.add_gradients = adds}));
    EXPECT_EQ(y, z);
    return y;
  }
  std::vector<float> table(TrainedTable which) {
    std::vector<float> numbers(kNumbers);
    const std::array into = {std::span(numbers)};
    wait_for(*runner_, memory_->read(which, into));
    return numbers;
  }
  double squares() {
    std::vector<float> sums(memory_->sums());
    wait_for(*runner_, memory_->sum_squares(sums));
    double sum = 0;
    for (const float one : sums) sum += one;
    return sum;
  }

  FactorProgram test_;
  Budget budget_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<StepBuffer> step_;
  TrainedMemory* memory_ = nullptr;
};

TEST_F(WebGpuTrainedFactors, AreChangedByAdamW) {
  const std::vector<float> x = drawn_numbers(2, kFactorColumns), start = drawn_numbers(1, kNumbers);
  const std::array written = {std::span<const float>(start)};
  memory_->write(TrainedTable::numbers, written);
  std::vector<double> w(start.begin(), start.end()), mean(kNumbers), square(kNumbers);
  const FactorUpdate update{
      .clip = 0.5f, .beta1 = 0.9f, .beta2 = 0.99f, .decay = 0.98f, .rate = 0.03f, .root = 0.4f, .eps = 1e-4f};
  for (uint32_t round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    memory_->clear_gradients();
    std::vector<double> gradient(kNumbers);
    double want_squares = 0;
    for (uint32_t part = 0; part < 2; ++part) {
      const std::vector<float> given = drawn_numbers(10 + 2 * round + part, kNumbers);
      play(x, given, true);
      for (size_t i = 0; i < kNumbers; ++i) gradient[i] += 2.5 * double{given[i]};
    }
    play(x, drawn_numbers(9, kNumbers), false);  // adds nothing
    for (size_t i = 0; i < kNumbers; ++i) {
      want_squares += gradient[i] * gradient[i];
      const double g = gradient[i] * double{update.clip};
      mean[i] += (1 - double{update.beta1}) * (g - mean[i]);
      square[i] = double{update.beta2} * square[i] + (1 - double{update.beta2}) * g * g;
      w[i] = double{update.decay} * w[i] -
             double{update.rate} * mean[i] / (std::sqrt(square[i]) / double{update.root} + double{update.eps});
    }
    EXPECT_NEAR(squares(), want_squares, 1e-5 * want_squares);
    memory_->update(update);
    const std::vector<float> numbers = table(TrainedTable::numbers), means = table(TrainedTable::means);
    const std::vector<float> found_squares = table(TrainedTable::squares), sums = table(TrainedTable::gradients);
    for (size_t i = 0; i < kNumbers; ++i) {
      ASSERT_NEAR(numbers[i], w[i], 2e-6) << i;
      ASSERT_NEAR(means[i], mean[i], 1e-6) << i;
      ASSERT_NEAR(found_squares[i], square[i], 1e-6) << i;
      ASSERT_NEAR(sums[i], gradient[i], 1e-6) << i;
    }
    const std::vector<float> y = play(x, drawn_numbers(9, kNumbers), false);
    for (uint32_t row = 0; row < kFactorRows; ++row) {
      double want = 0;
      for (uint32_t i = 0; i < kFactorColumns; ++i) want += w[size_t{row} * kFactorColumns + i] * double{x[i]};
      EXPECT_NEAR(y[row], want, 1e-5) << "the weight has the new numbers";
    }
  }
}

TEST_F(WebGpuTrainedFactors, AGradientThatIsNotFiniteIsSeen) {
  std::vector<float> given = drawn_numbers(3, kNumbers);
  given[kNumbers - 1] = std::nanf("");
  memory_->clear_gradients();
  play(drawn_numbers(2, kFactorColumns), given, true);
  EXPECT_FALSE(std::isfinite(squares()));
}

webgpu::Adapter small_adapter() {
  webgpu::Adapter small = webgpu::default_adapter();
  small.binding_bytes = 1024 + 8 * kFactorColumns * 4 * kTrainedTables;  // eight rows
  small.buffer_bytes = 16384;
  return small;
}

// All pieces together are each factor once.
TEST(WebGpuTrainedLayout, PiecesFitABinding) {
  const webgpu::Adapter small = small_adapter();
  const FactorProgram test;
  const PlanRequest request = test.request();
  const webgpu::TrainedLayout trained = webgpu::lay_out_trained(request, webgpu::Layout(request, small, {}), small);
  ASSERT_GT(trained.pieces.size(), 4u);
  uint64_t next = 0;
  for (const webgpu::TrainedPiece& piece : trained.pieces) {
    EXPECT_EQ(piece.first, next);
    next += piece.count;
    EXPECT_EQ(piece.count % kFactorColumns, 0u);
    EXPECT_GE(piece.table_words, piece.count);
    EXPECT_LE((piece.word + piece.table_words * kTrainedTables) * 4, trained.buffer_words[piece.buffer] * 4);
  }
  EXPECT_EQ(next, kNumbers);
  for (const uint64_t words : trained.buffer_words) EXPECT_LE(words * 4, small.binding_bytes);
}

// Runs are all entries in their order, and none has entries of two places or buffers.
TEST(WebGpuTrainedLayout, RunsTakeEachEntryOnce) {
  const webgpu::Adapter small = small_adapter();
  const FactorProgram test;
  const PlanRequest request = test.request();
  const webgpu::TrainedLayout trained = webgpu::lay_out_trained(request, webgpu::Layout(request, small, {}), small);
  ASSERT_EQ(trained.entries.size(), 2 * trained.pieces.size());
  for (const bool of_weights : {false, true}) {
    uint32_t next = 0;
    for (const webgpu::TrainedRun& run : trained.runs(of_weights)) {
      EXPECT_EQ(run.first, next);
      ASSERT_LT(run.first, run.end);
      next = run.end;
      const webgpu::TrainedEntry& first = trained.entries[run.first];
      for (uint32_t i = run.first; i < run.end; ++i) {
        EXPECT_EQ(trained.entries[i].place, first.place);
        EXPECT_EQ(trained.pieces[trained.entries[i].piece].buffer, trained.pieces[first.piece].buffer);
      }
      if (of_weights) EXPECT_EQ(run.end - run.first, 1u) << "weights with buffers of their own are bound one by one";
    }
    EXPECT_EQ(next, trained.entries.size());
  }
}

// A workgroup's word in the table leads to its entry's words.
TEST(WebGpuTrainedLayout, WorkgroupsFindTheirEntry) {
  const FactorProgram test;
  const PlanRequest request = test.request();
  const webgpu::Adapter adapter = webgpu::default_adapter();
  const webgpu::TrainedLayout trained = webgpu::lay_out_trained(request, webgpu::Layout(request, adapter, {}), adapter);
  const size_t words = webgpu::kTrainedWordNames.size();
  ASSERT_EQ(trained.table.size(), trained.groups + trained.sums + words * trained.entries.size());
  for (uint32_t i = 0; i < trained.entries.size(); ++i) {
    const uint32_t at = trained.table[trained.entries[i].first_group];
    EXPECT_EQ(at, trained.groups + trained.sums + words * i);
    EXPECT_EQ(trained.table[at], trained.entries[i].first_group);
    EXPECT_EQ(trained.table[at + 2], kNumbers);
    EXPECT_EQ(trained.table[trained.end_group(i) - 1], at);
  }
  EXPECT_EQ(trained.table[trained.groups], trained.table[0]) << "sums are of the first places";
}

}  // namespace
}  // namespace sluice
