#include "app/verify/verify_bars.h"

#include <gtest/gtest.h>

#include <limits>

#include "app/verify/verify_report.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr FileKind kBf16{Format::bf16, false};
constexpr FileKind kQ80{Format::q8_0, true};

TEST(VerifyBars, OnlyBlockFormatsAreQuantised) {
  EXPECT_FALSE(kind_of_format(Format::f32).quantised);
  EXPECT_FALSE(kind_of_format(Format::bf16).quantised);
  EXPECT_FALSE(kind_of_format(Format::f16).quantised);
  EXPECT_TRUE(kind_of_format(Format::q8_0).quantised);
  EXPECT_FALSE(kind_of_format(Format::u4).quantised);  // an MLX directory's golden is of the numbers it holds
  std::string whole;
  for (const FormatInfo& info : all_formats())
    if (!kind_of_format(info.format).quantised) whole += cat(info.name, " ");
  EXPECT_EQ(whole, "f32 f16 bf16 u8 u2 u3 u4 u5 u6 ");
}

TEST(VerifyBars, ExactFollowsTheCasesOwnFloat64Difference) {
  const Bars bars = bars_for("gemma4", kBf16, Arithmetic::exact);
  EXPECT_EQ(bars.judge, Judge::golden);
  EXPECT_DOUBLE_EQ(*bars.logit_bar(1e-5), 1e-3);
  EXPECT_DOUBLE_EQ(*bars.logit_bar(3.5e-4), 3.5e-3);
  EXPECT_DOUBLE_EQ(*bars.greedy_bar(3.5e-4), 7e-3);
}

TEST(VerifyBars, ExactQuantisedIsJudgedByTheReferenceDevice) {
  const Bars bars = bars_for("gemma4_moe", kQ80, Arithmetic::exact);
  EXPECT_EQ(bars.judge, Judge::reference);
  EXPECT_DOUBLE_EQ(*bars.logit_bar(1), 1e-3);
}

TEST(VerifyBars, FastDemoIsHeldToThePeersDivergence) {
  EXPECT_DOUBLE_EQ(*bars_for("gemma4", kBf16, Arithmetic::fast).mean_kl, 4.5e-5);
  EXPECT_DOUBLE_EQ(*bars_for("gemma4", kind_of_format(Format::f32), Arithmetic::fast).mean_kl, 4.5e-5);
  const Bars quantised = bars_for("gemma4", kQ80, Arithmetic::fast);
  EXPECT_DOUBLE_EQ(*quantised.mean_kl, 1.95e-3);
  EXPECT_DOUBLE_EQ(*quantised.greedy_bar(0), 0.5);
  EXPECT_FALSE(quantised.logit_bar(0).has_value());
}

TEST(VerifyBars, FastRandomModelsAreHeldAsAWhole) {
  const Bars whole = bars_for("gemma4_moe", kBf16, Arithmetic::fast);
  EXPECT_DOUBLE_EQ(*whole.logit_bar(1e-5), 0.32768);
  EXPECT_FALSE(whole.logit_bar(0).has_value()) << "a golden that does not state it";
  EXPECT_FALSE(whole.median_relative.has_value());
  const Bars quantised = bars_for("gemma4_moe", kQ80, Arithmetic::fast);
  EXPECT_FALSE(quantised.logit_bar(1e-5).has_value());
  EXPECT_DOUBLE_EQ(*quantised.median_relative, 0.25);
  EXPECT_FALSE(bars_for("gemma4", kQ80, Arithmetic::fast).median_relative.has_value()) << "held to the peer's";
}

TEST(VerifyBars, AMedianIsHeldFromEightRowsOn) {
  const auto misses = [](size_t rows, double relative) {
    VerifyRun run;
    run.bars = bars_for("gemma4_moe", kQ80, Arithmetic::fast);
    CaseReport report;
    report.judge.emplace();
    report.golden.row_relative.assign(rows, 0.0);
    report.judge->row_relative.assign(rows, relative);
    run.cases = {report};
    sum_up(run);
    VerifyReport all;
    all.runs = {run};
    return count_cases(all).missed;
  };
  EXPECT_EQ(misses(8, 0.24), 0);
  EXPECT_EQ(misses(8, 0.26), 1);
  EXPECT_EQ(misses(8, std::numeric_limits<double>::quiet_NaN()), 1);
  EXPECT_EQ(misses(7, 0.26), 0);
}

TEST(VerifyBars, FastRandomModelsAreHeldToTheirFirstLayer) {
  const Bars bars = bars_for("gemma4_moe", kBf16, Arithmetic::fast);
  EXPECT_EQ(bars.judged_names, JudgedNames::first_layer);
  EXPECT_DOUBLE_EQ(bars.intermediate, 2e-2);
  EXPECT_DOUBLE_EQ(bars_for("gemma4_moe", kQ80, Arithmetic::fast).intermediate, 5e-2);
  EXPECT_FALSE(bars.greedy_bar(0).has_value());
  EXPECT_FALSE(bars.mean_kl.has_value());
}

}  // namespace
}  // namespace sluice
