#include "app/verify/verify_case.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "engine/session.h"

namespace sluice {
namespace {

// The rows of logits to compute, and the places of the case's own positions among them.
struct WantedRows {
  std::vector<uint32_t> at;
  bool all = false;
};

WantedRows wanted_rows(const GoldenCase& golden_case) {
  WantedRows wanted;
  wanted.all = golden_case.perplexity.has_value() && golden_case.input_ids.size() > 1;
  if (wanted.all) {
    wanted.at.resize(golden_case.input_ids.size());
    std::iota(wanted.at.begin(), wanted.at.end(), 0u);
  } else {
    wanted.at = golden_case.positions;
  }
  return wanted;
}

std::vector<float> rows_at(const std::vector<float>& rows, const std::vector<uint32_t>& positions, size_t vocabulary) {
  std::vector<float> out;
  for (const uint32_t position : positions) {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(position * vocabulary);
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(vocabulary));
  }
  return out;
}

Status check_tokens(const GoldenCase& golden_case, uint32_t vocabulary) {
  for (const int32_t token : golden_case.input_ids) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocabulary) {
      return error(ErrorKind::invalid, "case ", golden_case.name, ": token ", token, ": want tokens below the model's ",
                   vocabulary);
    }
  }
  return {};
}

Status show_media(const CaseMedia& media, Engine& engine, Request& request) {
  for (const PreparedMedia& one : media.media) TRY_STATUS(engine.give_media(one.input));
  request.media = media.spans;
  return {};
}

// Splits the computed logits into the case's rows and its perplexity.
void take_rows(const GoldenCase& golden_case, const WantedRows& wanted, std::vector<float> computed, size_t vocabulary,
               std::vector<float>& rows, std::optional<double>& perplexity) {
  if (!wanted.all) {
    rows = std::move(computed);
    return;
  }
  rows = rows_at(computed, golden_case.positions, vocabulary);
  perplexity = perplexity_of(computed, golden_case.input_ids, vocabulary);
}

std::string number(double value) { return cat(value); }

void hold(CaseReport& report, const char* what, double found, const std::optional<double>& bar) {
  if (bar && !(found <= *bar)) report.misses.push_back(cat(what, ": ", number(found), ": want at most ", number(*bar)));
}

void hold_greedy(CaseReport& report, const std::optional<double>& bar) {
  if (bar && report.greedy.parted && !(report.greedy.margin < *bar)) {
    report.misses.push_back(cat("greedy tokens part at ", report.greedy.equal, ", margin ",
                                number(report.greedy.margin), ": want none above margin ", number(*bar)));
  }
}

void hold_perplexity(CaseReport& report, const Bars& bars) {
  if (report.perplexity && report.judge_perplexity) {
    const double difference = std::abs(std::log(*report.perplexity) - std::log(*report.judge_perplexity));
    hold(report, "ln perplexity difference", difference, bars.ln_perplexity);
  }
}

}  // namespace

Result<GoldenRun> run_case(Engine& engine, const GoldenCase& golden_case, const CaseMedia& media,
                           const AdapterSum& adapters, uint32_t vocabulary) {
  TRY_STATUS(check_tokens(golden_case, vocabulary));
  WantedRows wanted = wanted_rows(golden_case);
  Session session(engine);
  Request request;
  request.prompt = golden_case.input_ids;
  request.max_tokens = static_cast<uint32_t>(golden_case.greedy.size());
  request.sampling.temperature = 0;
  request.logits_at = wanted.at;
  request.adapters = adapters;
  TRY_STATUS(show_media(media, engine, request));
  TRY(Answer answer, session.run(std::move(request)));
  GoldenRun run;
  take_rows(golden_case, wanted, std::move(answer.logits), vocabulary, run.rows, run.perplexity);
  for (const SampleResult& token : answer.tokens) run.greedy.push_back(token.token);
  return run;
}

Result<Judgement> judge_by_golden(const Golden& golden, const GoldenCase& golden_case, uint32_t vocabulary) {
  TRY(GoldenTensor logits, golden.tensor(golden_case, "logits"));
  const size_t rows = golden_case.kind == kDraftKind ? golden_case.greedy.size() : golden_case.positions.size();
  const std::vector<int64_t> want = {static_cast<int64_t>(rows), int64_t{vocabulary}};
  if (logits.shape != want || logits.floats.empty()) {
    return error(ErrorKind::invalid, "case ", golden_case.name, ": logits are ", format_shape(logits.shape), ": want ",
                 format_shape(want), " of f32");
  }
  return Judgement{std::move(logits.floats), golden_case.greedy, golden_case.greedy_margin, golden_case.perplexity};
}

Result<Judgement> judge_by_reference(Engine& reference, const GoldenCase& golden_case, const CaseMedia& media,
                                     const AdapterSum& adapters, uint32_t vocabulary, const GoldenRun& ours) {
  const WantedRows wanted = wanted_rows(golden_case);
  const size_t tokens = golden_case.input_ids.size();
  Request request;
  request.prompt = golden_case.input_ids;
  request.logits_at = wanted.at;
  if (!ours.greedy.empty()) {
    request.prompt.insert(request.prompt.end(), ours.greedy.begin(), ours.greedy.end() - 1);
    for (size_t position = tokens - 1; position < request.prompt.size(); ++position)
      if (request.logits_at.empty() || request.logits_at.back() < position)
        request.logits_at.push_back(static_cast<uint32_t>(position));
  }
  request.adapters = adapters;
  TRY_STATUS(show_media(media, reference, request));
  const size_t asked = request.logits_at.size();
  Session session(reference);
  TRY(Answer answer, session.run(std::move(request)));
  CHECK(answer.logits.size() == asked * vocabulary);

  Judgement judgement;
  const std::span<const float> rows = answer.logits;
  for (size_t step = 0; step < ours.greedy.size(); ++step) {
    const size_t row = asked - ours.greedy.size() + step;
    judgement.greedy.push_back(arg_max(rows.subspan(row * vocabulary, vocabulary)));
    judgement.margins.push_back(best_margin(rows.subspan(row * vocabulary, vocabulary)));
  }
  answer.logits.resize(wanted.at.size() * vocabulary);
  take_rows(golden_case, wanted, std::move(answer.logits), vocabulary, judgement.rows, judgement.perplexity);
  return judgement;
}

Result<Trace> golden_values(const Golden& golden, const GoldenCase& golden_case) {
  Trace values;
  for (const auto& [name, key] : golden_case.tensors) {
    if (name == "logits" || starts_with(name, "pixel_values")) continue;
    Result<GoldenTensor> found = golden.tensor(golden_case, name);
    if (!found && found.error().kind == ErrorKind::unsupported) continue;  // masks
    TRY(GoldenTensor tensor, std::move(found));
    const size_t rows = tensor.shape.empty() ? 0 : static_cast<size_t>(tensor.shape[0]);
    const size_t elements = tensor.floats.size() + tensor.integers.size();
    values.push_back(
        {name, rows, rows == 0 ? 0 : elements / rows, std::move(tensor.floats), std::move(tensor.integers)});
  }
  return values;
}

CaseReport report_case(const GoldenCase& golden_case, const GoldenRun& ours, const Judgement& golden,
                       const Judgement* reference, uint32_t vocabulary, const Bars& bars) {
  const Judgement& judge = reference != nullptr ? *reference : golden;
  CaseReport report;
  report.name = golden_case.name;
  report.kind = golden_case.kind;
  report.golden = compare_logits(ours.rows, golden.rows, vocabulary);
  if (reference != nullptr) report.judge = compare_logits(ours.rows, reference->rows, vocabulary);
  report.greedy = compare_greedy(ours.greedy, judge.greedy, judge.margins);
  report.greedy_tokens = judge.greedy.size();
  report.perplexity = ours.perplexity;
  report.judge_perplexity = judge.perplexity;

  const LogitErrors& judged = report.judge ? *report.judge : report.golden;
  if (std::isnan(judged.largest)) report.misses.emplace_back("logits: a value is not finite: want finite ones");
  hold(report, "largest logit difference", judged.largest, bars.logit_bar(golden_case.float64_difference));
  hold_greedy(report, bars.greedy_bar(golden_case.float64_difference));
  hold_perplexity(report, bars);
  return report;
}

void report_trace(CaseReport& report, TraceErrors errors, const Bars& bars) {
  for (const Difference& difference : errors.judged)
    hold(report, difference.name.c_str(), difference.error, bars.intermediate);
  if (errors.experts_misses > 0)
    report.misses.push_back(cat("chosen experts: ", errors.experts_misses, " tokens differ beyond ties: want none"));
  report.trace = std::move(errors);
}

}  // namespace sluice
