#include "app/verify/verify_trace.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "app/verify/compare.h"
#include "base/text.h"

namespace sluice {
namespace {

const TracedValue* find_named(const Trace& values, std::string_view name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const TracedValue& v) { return v.name == name; });
  return found == values.end() ? nullptr : &*found;
}

bool same_shape(const TracedValue& a, const TracedValue& b) {
  return a.rows == b.rows && a.floats.size() == b.floats.size() && a.integers.size() == b.integers.size();
}

std::vector<int32_t> sorted_row(const TracedValue& chosen, size_t row) {
  const auto begin = chosen.integers.begin() + static_cast<std::ptrdiff_t>(row * chosen.columns);
  std::vector<int32_t> experts(begin, begin + static_cast<std::ptrdiff_t>(chosen.columns));
  std::sort(experts.begin(), experts.end());
  return experts;
}

// Rows whose chosen experts are the same set in both; all of them where the layer has no experts.
std::vector<bool> agreeing_rows(const TracedValue* ours, const TracedValue* judge, size_t rows) {
  std::vector<bool> agree(rows, true);
  if (ours == nullptr || judge == nullptr || !same_shape(*ours, *judge) || ours->rows != rows) return agree;
  for (size_t row = 0; row < rows; ++row) agree[row] = sorted_row(*ours, row) == sorted_row(*judge, row);
  return agree;
}

std::vector<double> softmax(std::span<const float> row) {
  std::vector<double> p(row.size());
  for (size_t i = 0; i < row.size(); ++i) p[i] = std::exp(log_probability(row, static_cast<int32_t>(i)));
  return p;
}

// True when the experts that only one side chose have selection scores within `tie` of each other.
bool is_tie(const std::vector<int32_t>& ours, const std::vector<int32_t>& judge, std::span<const float> logits,
            double tie) {
  const std::vector<double> scores = softmax(logits);
  std::vector<int32_t> disputed;
  std::set_symmetric_difference(ours.begin(), ours.end(), judge.begin(), judge.end(), std::back_inserter(disputed));
  double least = 1, most = 0;
  for (const int32_t expert : disputed) {
    if (expert < 0 || static_cast<size_t>(expert) >= scores.size()) return false;
    least = std::min(least, scores[static_cast<size_t>(expert)]);
    most = std::max(most, scores[static_cast<size_t>(expert)]);
  }
  return most - least <= tie;
}

void compare_experts(const TracedValue& ours, const TracedValue& judge, const TracedValue* logits, const Bars& bars,
                     TraceErrors& errors) {
  for (size_t row = 0; row < ours.rows; ++row) {
    const std::vector<int32_t> got = sorted_row(ours, row), want = sorted_row(judge, row);
    if (got == want) continue;
    ++errors.tokens_with_other_experts;
    const bool tie =
        bars.experts_tie && logits != nullptr && logits->rows == ours.rows &&
        is_tie(got, want, std::span(logits->floats).subspan(row * logits->columns, logits->columns), *bars.experts_tie);
    errors.experts_misses += bars.experts_tie && !tie ? 1 : 0;
  }
}

// Weights of chosen experts stand in the order of choice, which ties may turn round: in the order of experts instead.
TracedValue by_expert(TracedValue weights, const TracedValue& chosen) {
  const size_t k = chosen.columns;
  for (size_t row = 0; row < chosen.rows; ++row) {
    std::vector<std::pair<int32_t, float>> pairs;
    for (size_t i = row * k; i < (row + 1) * k; ++i) pairs.emplace_back(chosen.integers[i], weights.floats[i]);
    std::sort(pairs.begin(), pairs.end());
    for (size_t i = 0; i < k; ++i) weights.floats[row * k + i] = pairs[i].second;
  }
  return weights;
}

double error_over(const TracedValue& ours, const TracedValue& judge, const std::vector<bool>& rows) {
  std::vector<float> got, want;
  const size_t width = ours.columns;
  for (size_t row = 0; row < ours.rows; ++row) {
    if (rows[row]) {
      const auto begin = static_cast<std::ptrdiff_t>(row * width), end = static_cast<std::ptrdiff_t>((row + 1) * width);
      got.insert(got.end(), ours.floats.begin() + begin, ours.floats.begin() + end);
      want.insert(want.end(), judge.floats.begin() + begin, judge.floats.begin() + end);
    }
  }
  return relative_norm(got, want);
}

// "layer.3.q" -> "layer.3."; "hidden.4" -> "layer.3.", the layer it comes out of.
std::string layer_prefix(const std::string& name) {
  if (starts_with(name, "layer.")) return name.substr(0, name.find('.', 6) + 1);
  const auto number = starts_with(name, "hidden.") ? parse_integer(name.substr(7)) : std::nullopt;
  return number && *number > 0 ? cat("layer.", *number - 1, ".") : "";
}

bool is_judged(const std::string& name, JudgedNames names) {
  return names == JudgedNames::all || (names == JudgedNames::first_layer && layer_prefix(name) == "layer.0.");
}

class Comparison {
 public:
  Comparison(const Trace& ours, const Trace& judge, const Bars& bars) : ours_(ours), judge_(judge), bars_(bars) {}

  TraceErrors run() {
    for (const TracedValue& want : judge_) {
      const TracedValue* got = find_named(ours_, want.name);
      if (got == nullptr || !same_shape(*got, want)) errors_.not_compared.push_back(want.name);
    }
    for (const TracedValue& got : ours_) {
      const TracedValue* want = find_named(judge_, got.name);
      if (want != nullptr && same_shape(got, *want)) {
        ++errors_.compared;
        compare(got, *want);
      }
    }
    return std::move(errors_);
  }

 private:
  void compare(const TracedValue& got, const TracedValue& want) {
    const std::string layer = layer_prefix(got.name);
    if (!got.integers.empty()) {
      compare_experts(got, want, find_named(judge_, layer + "router_logits"), bars_, errors_);
      return;
    }
    const TracedValue* ours_chosen = find_named(ours_, layer + "topk_index");
    const TracedValue* judge_chosen = find_named(judge_, layer + "topk_index");
    const std::vector<bool> rows = agreeing_rows(ours_chosen, judge_chosen, got.rows);
    const bool ordered = ends_with(got.name, ".topk_weights") && ours_chosen != nullptr && judge_chosen != nullptr &&
                         ours_chosen->integers.size() == got.floats.size() &&
                         judge_chosen->integers.size() == want.floats.size();
    const double error = ordered ? error_over(by_expert(got, *ours_chosen), by_expert(want, *judge_chosen), rows)
                                 : error_over(got, want, rows);
    if (!(error <= bars_.intermediate)) {
      errors_.over.push_back({got.name, error});
      if (is_judged(got.name, bars_.judged_names)) errors_.judged.push_back({got.name, error});
    }
  }

  const Trace& ours_;
  const Trace& judge_;
  const Bars& bars_;
  TraceErrors errors_;
};

}  // namespace

TraceErrors compare_traces(const Trace& ours, const Trace& judge, const Bars& bars) {
  return Comparison(ours, judge, bars).run();
}

}  // namespace sluice
