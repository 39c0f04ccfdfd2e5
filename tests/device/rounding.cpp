#include "rounding.h"

#include <algorithm>
#include <cmath>

#include "device/reference/reference.h"
#include "parity.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

constexpr uint32_t kColumns = 512, kOutputs = 24, kRows = 64;
constexpr double kLevels = 127;  // of the scale's integers to one side
// Even errors are off by more than six times their standard deviation once in 500 million cases.
constexpr double kDeviations = 6;
// At both ends of a fill a part of a step has no other part to outweigh it: half a step at most, of some 120 that a
// fill spans, with a mean error of a quarter of one.
constexpr double kEnds = 2 * 0.5 * 0.25 / 120;

// The sum of a column of the weight.
std::vector<double> column_sums(const CaseWeights& weights) {
  const TensorSource source = unwrap(weights.find("w1"));
  std::vector<double> sums(source.shape.columns);
  std::vector<float> row(source.shape.columns);
  for (uint32_t o = 0; o < source.shape.rows; ++o) {
    decode_row(source.format, source.bytes + o * source.row_stride, row.data(), row.size());
    for (size_t i = 0; i < row.size(); ++i) sums[i] += row[i];
  }
  return sums;
}

const std::vector<uint32_t>& results(const StepOutputs& outputs) { return outputs.at(0); }

std::span<const float> floats(const StepOutputs& outputs) {
  return {reinterpret_cast<const float*>(results(outputs).data()), results(outputs).size()};
}

}  // namespace

OpCase rounding_case(Format format, const Fill& activations) {
  CaseBuilder builder(
      cat("activations from ", activations.low, " to ", activations.high, " in 8 bits, ", format_name(format)));
  const Value x = builder.input(kColumns, 1, activations);
  const Weight weight = builder.weight({.rows = kOutputs, .columns = kColumns}, format, {.low = 0.5f, .high = 1.0f});
  builder.output(linear(x, weight));
  builder.row_steps({kRows});
  return builder.done();
}

Lean lean_of(const OpCase& one, const CaseWeights& weights, std::span<const float> found,
             std::span<const float> expected, uint32_t block) {
  const std::vector<double> sums = column_sums(weights);
  const std::vector<CaseRow> rows = rows_of(one.steps[0]);
  const size_t outputs = found.size() / rows.size();
  double products = 0, squares = 0, variance = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    const std::vector<float> x = input_row(one, 0, rows[row]);
    double step = 0, spread = 0;  // what one step in every activation does; the variance of even errors
    for (size_t first = 0; first < x.size(); first += block) {
      double largest = 0, sum = 0, square = 0;
      for (size_t i = first; i < first + block; ++i) {
        largest = std::max(largest, std::fabs(double{x[i]}));
        sum += sums[i];
        square += sums[i] * sums[i];
      }
      const double scale = largest / kLevels;
      step += scale * sum;
      spread += scale * scale * square / 12;  // of numbers spread evenly over one
    }
    double error = 0;
    for (size_t o = row * outputs; o < (row + 1) * outputs; ++o) error += double{found[o]} - expected[o];
    products += error * step;
    squares += step * step;
    variance += step * step * spread;
  }
  return {.steps = products / squares, .bar = kDeviations * std::sqrt(variance) / squares + kEnds};
}

std::string device_name(const testing::TestParamInfo<ParityDevice>& info) { return info.param.name; }

// Integers with one scale a block, with minima, and with scales of halves, which each add up activations in their way.
TEST_P(EightBitActivations, AreRoundedToTheNearest) {
  const std::unique_ptr<Device> device = GetParam().make(), oracle = make_reference_device_f64();
  if (device == nullptr) GTEST_SKIP() << GetParam().name << ": not here";
  for (const Format format : {Format::q8_0, Format::q4_k, Format::q6_k})
    for (const Fill& fill : {Fill{.low = 0.05f, .high = 1.0f}, Fill{.low = -1.0f, .high = -0.05f}}) {
      const OpCase one = rounding_case(format, fill);
      const CaseWeights weights(one);
      CasePlayer reference(one, weights, *oracle, Arithmetic::exact), player(one, weights, *device, Arithmetic::fast);
      const StepOutputs expected = reference.play(one.steps[0], TokenClass::prompt);
      for (const TokenClass token_class : kTokenClasses) {
        const StepOutputs found = player.play(one.steps[0], token_class);
        const Lean lean = lean_of(one, weights, floats(found), floats(expected), GetParam().fast.block);
        EXPECT_LE(std::fabs(lean.steps), lean.bar) << one.name << ", " << token_class_name(token_class);
        EXPECT_LT(lean.bar, 0.1) << "of the half step that other roundings are off by";
      }
    }
}

}  // namespace sluice
