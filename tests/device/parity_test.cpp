// The parity suite can fail: what it compares with, and whether it would notice a wrong op.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/text.h"
#include "device/reference/reference.h"
#include "parity_compare.h"
#include "parity_player.h"
#include "rounding.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

TEST(ParityCompare, SaysWhichElementIsOff) {
  const std::vector<float> expected = {1, 2, 3, 4}, found = {1, 2, 3.5f, 4};
  EXPECT_EQ(difference(found, expected, 2, 0.01f), "row 1, column 0: found 3.5: want 3 (off by 0.125, may 0.01)");
  EXPECT_EQ(difference(found, expected, 2, 0.125f), "");
  EXPECT_EQ(difference(expected, expected, 2, 0.0f), "");
}

TEST(ParityCompare, ZerosAndNaNsNeverPass) {
  const std::vector<float> expected = {1, -2, 3, 0.5f};
  EXPECT_NE(difference(std::vector<float>(4, 0.0f), expected, 2, 0.1f), "");
  EXPECT_NE(difference(std::vector<float>(4, std::numeric_limits<float>::quiet_NaN()), expected, 2, 1e9f), "");
}

TEST(ParityCompare, ComparesSampledTokensAndTheirNumbers) {
  SampleResult expected{.token = 3, .log_prob = -0.5f, .log_sum_exp = 2.0f};
  const auto off = [&](const std::function<void(SampleResult&)>& change) {
    SampleResult found = expected;
    change(found);
    std::vector<uint32_t> words[2] = {std::vector<uint32_t>(kSampleWords), std::vector<uint32_t>(kSampleWords)};
    std::memcpy(words[0].data(), &found, sizeof found);
    std::memcpy(words[1].data(), &expected, sizeof expected);
    return sample_difference(words[0], words[1], 1e-5f);
  };
  EXPECT_EQ(off([](SampleResult&) {}), "");
  EXPECT_EQ(off([](SampleResult& r) { r.token = 4; }), "row 0: found token 4: want 3");
  EXPECT_EQ(off([](SampleResult& r) { r.finite = 0; }), "row 0: found finite 0: want 1");
  EXPECT_EQ(off([](SampleResult& r) { r.log_prob = -0.4f; }), "row 0: found log_prob -0.4: want -0.5");
  EXPECT_EQ(off([](SampleResult& r) { r.candidates[2].logit = 1; }),
            "row 0: found candidate 2 0 with 1: want 0 with 0");
  expected.finite = 0;
  EXPECT_EQ(off([](SampleResult& r) { r.token = 4; }), "");
}

// Changes the first op of that kind in each of the subject's cases; the cases must notice at the fast bar.
template <class O>
void expect_noticed(const char* what, const std::function<bool(O&)>& change) {
  SCOPED_TRACE(what);
  const std::unique_ptr<Device> device = make_reference_device_f64();
  bool noticed = false;
  for (const OpCase& one : cases_of(O::kDoc.name)) {
    OpCase wrong = one;
    bool changed = false;
    for (Op& op : wrong.program.ops)
      if (O* mine = std::get_if<O>(&op)) changed = change(*mine) || changed;
    if (!changed || noticed) continue;
    const CaseWeights weights(one);
    CasePlayer right_player(one, weights, *device, Arithmetic::exact);
    CasePlayer wrong_player(wrong, weights, *device, Arithmetic::exact);
    for (const CaseStep& step : one.steps) {
      const StepOutputs expected = right_player.play(step, TokenClass::decode);
      const StepOutputs found = wrong_player.play(step, TokenClass::decode);
      for (size_t i = 0; i < expected.size(); ++i) {
        const ValueType& type = one.program.values[one.program.outputs[i].value].type;
        const auto* e = reinterpret_cast<const float*>(expected[i].data());
        const auto* f = reinterpret_cast<const float*>(found[i].data());
        noticed = noticed || (type.element == Element::i32 ? found[i] != expected[i]
                                                           : !difference({f, found[i].size()}, {e, expected[i].size()},
                                                                         type.columns(), O::kDoc.tolerance.fast_8bit)
                                                                  .empty());
      }
    }
  }
  EXPECT_TRUE(noticed);
}

TEST(ParityCases, NoticeWrongParameters) {
  expect_noticed<Attention>("window one short", [](Attention& op) { return op.window > 1 && op.window-- < 200; });
  expect_noticed<Attention>("no softcap", [](Attention& op) { return std::exchange(op.softcap, 0.0f) != 0; });
  expect_noticed<Attention>("scale", [](Attention& op) { return (op.scale *= 1.1f) != 0; });
  expect_noticed<Attention>("no relative", [](Attention& op) { return std::exchange(op.relative, kNone) != kNone; });
  expect_noticed<RmsNorm>("no eps", [](RmsNorm& op) { return (op.eps = 1e-12f) != 0; });
  expect_noticed<RmsNorm>("no weight", [](RmsNorm& op) { return std::exchange(op.weight, kNone) != kNone; });
  expect_noticed<LayerNorm>("no eps", [](LayerNorm& op) { return (op.eps = 1e-12f) != 0; });
  expect_noticed<LayerNorm>("no weight", [](LayerNorm& op) { return std::exchange(op.weight, kNone) != kNone; });
  expect_noticed<LayerNorm>("no bias", [](LayerNorm& op) { return std::exchange(op.bias, kNone) != kNone; });
  expect_noticed<Embed>("no scale", [](Embed& op) { return std::exchange(op.scale, 1.0f) != 1; });
  expect_noticed<Scale>("no weight", [](Scale& op) { return std::exchange(op.weight, kNone) != kNone; });
  expect_noticed<Clamp>("no bound below", [](Clamp& op) { return std::exchange(op.low, op.high) != op.high; });
  expect_noticed<Clamp>("no bound above", [](Clamp& op) { return std::exchange(op.high, op.low) != op.low; });
  expect_noticed<Pool>("no shares", [](Pool& op) { return std::exchange(op.shares, kNone) != kNone; });
  expect_noticed<Pool>("no factor", [](Pool& op) { return std::exchange(op.factor, 1.0f) != 1; });
  expect_noticed<Softcap>("cap", [](Softcap& op) { return (op.cap = 29.9f) != 0; });
  expect_noticed<Activation>("silu for gelu_tanh", [](Activation& op) {
    return std::exchange(op.kind, ActivationKind::silu) == ActivationKind::gelu_tanh;
  });
  expect_noticed<Activation>("gelu_tanh for gelu", [](Activation& op) {
    return std::exchange(op.kind, ActivationKind::gelu_tanh) == ActivationKind::gelu;
  });
  expect_noticed<Route>("not normalised", [](Route& op) { return std::exchange(op.normalise, false); });
  expect_noticed<Route>("no scale", [](Route& op) { return std::exchange(op.per_expert_scale, kNone) != kNone; });
  expect_noticed<Route>("no bias", [](Route& op) { return std::exchange(op.bias, kNone) != kNone; });
  expect_noticed<Route>("all groups", [](Route& op) { return std::exchange(op.groups_used, op.groups) < op.groups; });
  expect_noticed<Route>("no factor", [](Route& op) { return std::exchange(op.scale, 1.0f) != 1; });
  expect_noticed<Rope>("first element", [](Rope& op) { return std::exchange(op.first, 0u) != 0; });
  expect_noticed<Experts>("gate for up", [](Experts& op) { return std::exchange(op.up, op.gate) != op.gate; });
  expect_noticed<Slice>("first head", [](Slice& op) { return op.first_head > 0 && op.first_head-- > 0; });
}

// As EightBitActivations measures it, of the roundings that there are.
TEST(Rounding, OnlyToTheNearestLeansToNoSide) {
  const struct {
    const char* name;
    double (*round)(double);
    bool leans;
  } roundings[] = {{"to the nearest", [](double x) { return std::nearbyint(x); }, false},
                   {"down", [](double x) { return std::floor(x); }, true},
                   {"up", [](double x) { return std::ceil(x); }, true},
                   {"towards zero", [](double x) { return std::trunc(x); }, true},
                   {"a tenth of a step high", [](double x) { return std::nearbyint(x) + 0.1; }, true}};
  constexpr uint32_t kBlock = 32;
  for (const Fill& fill : {Fill{.low = 0.05f, .high = 1.0f}, Fill{.low = -1.0f, .high = -0.05f}}) {
    const OpCase one = rounding_case(Format::q8_0, fill);
    const CaseWeights weights(one);
    const TensorSource source = unwrap(weights.find("w1"));
    std::vector<float> weight(source.shape.columns);
    for (const auto& rounding : roundings) {
      std::vector<float> found, expected;
      for (const CaseRow& row : rows_of(one.steps[0])) {
        const std::vector<float> x = input_row(one, 0, row);
        for (uint32_t o = 0; o < source.shape.rows; ++o) {
          decode_row(source.format, source.bytes + o * source.row_stride, weight.data(), weight.size());
          double sum = 0, rounded = 0;
          for (size_t i = 0; i < x.size(); ++i) {
            const auto block = x.begin() + static_cast<ptrdiff_t>(i / kBlock * kBlock);
            float largest = 0;
            for (auto at = block; at != block + kBlock; ++at) largest = std::max(largest, std::fabs(*at));
            const double scale = largest / 127.0;
            sum += double{weight[i]} * x[i];
            rounded += weight[i] * (scale * rounding.round(x[i] / scale));
          }
          expected.push_back(static_cast<float>(sum));
          found.push_back(static_cast<float>(rounded));
        }
      }
      const Lean lean = lean_of(one, weights, found, expected, kBlock);
      EXPECT_EQ(std::fabs(lean.steps) > lean.bar, rounding.leans) << rounding.name << ": " << lean.steps;
    }
  }
}

TEST(ParityCases, EverySubjectHasCasesWithNamesOfTheirOwn) {
  for (const std::string_view subject : case_subjects()) {
    std::vector<std::string> names;
    for (const OpCase& one : cases_of(subject)) names.push_back(one.name);
    EXPECT_FALSE(names.empty()) << subject;
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << subject;
  }
}

}  // namespace
}  // namespace sluice
