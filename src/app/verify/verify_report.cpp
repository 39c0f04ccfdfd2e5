#include "app/verify/verify_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

std::string percent(double share) { return cat(static_cast<int64_t>(share * 100), " %"); }

struct Column {
  const char* head;
  size_t width;
};
constexpr Column kColumns[] = {{"case", 16}, {"result", 9},  {"largest", 9},     {"relative", 10},       {"KL", 9},
                               {"top", 7},   {"greedy", 24}, {"perplexity", 12}, {"first difference", 0}};

std::string table_line(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    std::string cell = cells[i];
    // At least one space between columns; nothing after the last.
    cell.resize(std::max(cell.size() + 1, kColumns[i].width), ' ');
    line += cell;
  }
  line.resize(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string greedy_cell(const CaseReport& report) {
  if (report.greedy_tokens == 0) return "-";
  if (!report.greedy.parted) return cat(report.greedy_tokens, " equal");
  return cat("part at ", report.greedy.equal, " (", report.greedy.margin, ")");
}

std::string trace_cell(const CaseReport& report) {
  if (!report.trace) return "-";
  if (report.trace->over.empty()) return cat("none of ", report.trace->compared);
  const Difference& first = report.trace->over.front();
  return cat(first.name, ' ', scientific(first.error));
}

// It has a sentence in place of the columns of logits.
std::string training_line(const CaseReport& report) {
  const TrainErrors& errors = *report.training;
  const auto shown = [](const std::optional<double>& error) { return error ? scientific(*error) : std::string("-"); };
  return table_line(
      {report.name, report.misses.empty() ? "holds" : "MISSED",
       cat("gradients ", shown(errors.gradient), ", losses of ", errors.steps, " steps ", scientific(errors.loss),
           ", factors ", shown(errors.final), ", accumulated ", shown(errors.accumulated))});
}

std::string case_line(const CaseReport& report) {
  if (!report.not_run.empty()) return table_line({report.name, "not run", report.not_run});
  if (report.training) return training_line(report);
  const LogitErrors& judged = report.judge ? *report.judge : report.golden;
  return table_line({report.name, report.misses.empty() ? "holds" : "MISSED", scientific(judged.largest),
                     scientific(judged.relative), scientific(report.golden.kl), percent(report.golden.top_equal),
                     greedy_cell(report), report.perplexity ? cat(*report.perplexity) : "-", trace_cell(report)});
}

std::string details(const CaseReport& report) {
  std::string out;
  for (const std::string& miss : report.misses) out += cat("  missed: ", miss, '\n');
  if (report.trace && report.trace->tokens_with_other_experts > 0)
    out += cat("  other experts chosen for ", report.trace->tokens_with_other_experts, " tokens, summed over layers\n");
  if (report.trace && !report.trace->not_compared.empty()) {
    out += "  not compared:";
    for (const std::string& name : report.trace->not_compared) out += cat(' ', name);
    out += '\n';
  }
  return out;
}

std::string mean_line(const VerifyRun& run) {
  if (run.kl_cases == 0) return "";
  std::string line = cat("mean KL over ", run.kl_cases, " cases: ", scientific(run.mean_kl));
  if (!run.bars.mean_kl) return line + "\n";
  const std::string bar = cat(scientific(*run.bars.mean_kl), ", over ", run.bars.kl_cases, " cases");
  if (run.kl_cases != run.bars.kl_cases) return cat(line, " (not judged: the bar is ", bar, ")\n");
  return cat(line, run.kl_miss.empty() ? " (holds: " : " (MISSED: ", "the bar is ", bar, ")\n");
}

std::string median_line(const VerifyRun& run) {
  if (!run.bars.median_relative) return "";
  const std::string line = cat("median relative difference of ", run.rows, " rows: ", scientific(run.median_relative));
  const std::string bar = scientific(*run.bars.median_relative);
  if (run.rows < kMedianRows) return cat(line, " (not judged: the bar is ", bar, ", from ", kMedianRows, " rows on)\n");
  return cat(line, run.median_miss.empty() ? " (holds: " : " (MISSED: ", "the bar is ", bar, ")\n");
}

std::string run_text(const VerifyRun& run) {
  std::string out = cat("\n", arithmetic_name(run.arithmetic), " arithmetic (", run.numerics_id, ")\n");
  if (run.bars.judge == Judge::reference)
    out += "largest, relative, greedy: from the reference device on the same file; KL, top: from the golden\n";
  std::vector<std::string> heads;
  for (const Column& column : kColumns) heads.emplace_back(column.head);
  out += table_line(heads);
  for (const CaseReport& report : run.cases) out += case_line(report) + details(report);
  return out + mean_line(run) + median_line(run);
}

// JSON has no word for a value that is not finite.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json errors_json(const LogitErrors& errors) {
  return Json::Object{{"largest", finite(errors.largest)},
                      {"relative", finite(errors.relative)},
                      {"kl", finite(errors.kl)},
                      {"top_equal", finite(errors.top_equal)},
                      {"positions", static_cast<int64_t>(errors.rows)}};
}

Json optional_number(const std::optional<double>& value) { return value ? finite(*value) : Json(); }

Json greedy_json(const CaseReport& report) {
  if (report.greedy_tokens == 0) return {};
  return Json::Object{{"tokens", static_cast<int64_t>(report.greedy_tokens)},
                      {"equal", static_cast<int64_t>(report.greedy.equal)},
                      {"margin", report.greedy.parted ? Json(double{report.greedy.margin}) : Json()}};
}

Json trace_json(const std::optional<TraceErrors>& trace) {
  if (!trace) return {};
  Json::Array over, not_compared;
  for (const Difference& difference : trace->over)
    over.emplace_back(Json::Object{{"name", difference.name}, {"error", finite(difference.error)}});
  for (const std::string& name : trace->not_compared) not_compared.emplace_back(name);
  return Json::Object{{"compared", static_cast<int64_t>(trace->compared)},
                      {"different", std::move(over)},
                      {"not_compared", std::move(not_compared)},
                      {"other_experts", static_cast<int64_t>(trace->tokens_with_other_experts)}};
}

// Of other cases all members are null.
Json training_json(const std::optional<TrainErrors>& errors) {
  const TrainErrors none;
  const TrainErrors& of = errors ? *errors : none;
  return Json::Object{{"gradient", optional_number(of.gradient)},
                      {"loss", errors ? finite(of.loss) : Json()},
                      {"final", optional_number(of.final)},
                      {"accumulated", optional_number(of.accumulated)},
                      {"steps", errors ? Json(static_cast<int64_t>(of.steps)) : Json()}};
}

Json case_json(const CaseReport& report) {
  if (!report.not_run.empty()) {
    return Json::Object{
        {"name", report.name}, {"kind", report.kind}, {"result", "not run"}, {"reason", report.not_run}};
  }
  Json::Array misses;
  for (const std::string& miss : report.misses) misses.emplace_back(miss);
  return Json::Object{{"name", report.name},
                      {"kind", report.kind},
                      {"result", report.misses.empty() ? "holds" : "missed"},
                      {"misses", std::move(misses)},
                      {"golden", errors_json(report.golden)},
                      {"reference", report.judge ? errors_json(*report.judge) : Json()},
                      {"greedy", greedy_json(report)},
                      {"perplexity", optional_number(report.perplexity)},
                      {"judge_perplexity", optional_number(report.judge_perplexity)},
                      {"intermediates", trace_json(report.trace)},
                      {"training", training_json(report.training)}};
}

Json run_json(const VerifyRun& run) {
  Json::Array cases;
  for (const CaseReport& report : run.cases) cases.push_back(case_json(report));
  return Json::Object{{"arithmetic", arithmetic_name(run.arithmetic)},
                      {"numerics", run.numerics_id},
                      {"judge", run.bars.judge == Judge::golden ? "golden" : "reference"},
                      {"mean_kl", finite(run.mean_kl)},
                      {"mean_kl_cases", run.kl_cases},
                      {"mean_kl_bar", optional_number(run.bars.mean_kl)},
                      {"mean_kl_result", !run.bars.mean_kl || run.kl_cases != run.bars.kl_cases ? "not judged"
                                         : run.kl_miss.empty()                                  ? "holds"
                                                                                                : "missed"},
                      {"median_relative", finite(run.median_relative)},
                      {"median_relative_rows", static_cast<int64_t>(run.rows)},
                      {"median_relative_bar", optional_number(run.bars.median_relative)},
                      {"median_relative_result", !run.bars.median_relative || run.rows < kMedianRows ? "not judged"
                                                 : run.median_miss.empty()                           ? "holds"
                                                                                                     : "missed"},
                      {"cases", std::move(cases)}};
}

}  // namespace

void sum_up(VerifyRun& run) {
  double sum = 0;
  std::vector<double> relative;
  for (const CaseReport& report : run.cases) {
    if (report.not_run.empty() && !report.training) {
      // The bar is what a quantisation costs the model itself.
      if (report.kind != kAdapterKind) {
        sum += report.golden.kl;
        ++run.kl_cases;
      }
      const std::vector<double>& rows = (report.judge ? *report.judge : report.golden).row_relative;
      relative.insert(relative.end(), rows.begin(), rows.end());
    }
  }
  run.mean_kl = run.kl_cases == 0 ? 0 : sum / run.kl_cases;
  if (run.bars.mean_kl && run.kl_cases == run.bars.kl_cases && !(run.mean_kl <= *run.bars.mean_kl))
    run.kl_miss = cat("mean KL is ", run.mean_kl, ": want at most ", *run.bars.mean_kl);
  run.rows = relative.size();
  run.median_relative = median(std::move(relative));
  if (run.bars.median_relative && run.rows >= kMedianRows && !(run.median_relative <= *run.bars.median_relative)) {
    run.median_miss =
        cat("median relative difference is ", run.median_relative, ": want at most ", *run.bars.median_relative);
  }
}

VerifyCounts count_cases(const VerifyReport& report) {
  VerifyCounts counts;
  for (const VerifyRun& run : report.runs) {
    for (const CaseReport& one : run.cases)
      (one.not_run.empty() ? one.misses.empty() ? counts.held : counts.missed : counts.not_run) += 1;
    counts.missed += (run.kl_miss.empty() ? 0 : 1) + (run.median_miss.empty() ? 0 : 1);
  }
  return counts;
}

std::string summary_line(const VerifyCounts& counts) {
  return cat("verify: ", counts.held, counts.held == 1 ? " case holds, " : " cases hold, ", counts.missed, " missed, ",
             counts.not_run, " not run");
}

const char* arithmetic_name(Arithmetic arithmetic) { return arithmetic == Arithmetic::exact ? "exact" : "fast"; }

std::string report_text(const VerifyReport& report) {
  std::string out = cat("model   ", report.model, " (", format_name(report.file.format),
                        report.file.quantised ? ", quantised)" : ", the golden's weights)", "\ngolden  ", report.golden,
                        " (", printable(report.golden_model), ")\ndevice  ", report.device, '\n');
  for (const VerifyRun& run : report.runs) out += run_text(run);
  return cat(out, summary_line(count_cases(report)), '\n');
}

Json report_json(const VerifyReport& report) {
  Json::Array runs;
  for (const VerifyRun& run : report.runs) runs.push_back(run_json(run));
  const VerifyCounts counts = count_cases(report);
  return Json::Object{{"model", report.model},
                      {"format", format_name(report.file.format)},
                      {"quantised", report.file.quantised},
                      {"golden", report.golden},
                      {"golden_model", report.golden_model},
                      {"device", report.device},
                      {"runs", std::move(runs)},
                      {"held", counts.held},
                      {"missed", counts.missed},
                      {"not_run", counts.not_run}};
}

std::vector<JsonField> report_fields() {
  return {
      {"model", "string", "the model as given"},
      {"format", "string", "the weight format of most of its bytes"},
      {"quantised", "boolean", "false when the weights are the golden's"},
      {"golden", "string", "the golden as given"},
      {"golden_model", "string", "the golden's name for its model"},
      {"device", "string", "the device that computed"},
      {"runs[].arithmetic", "string", "`exact` or `fast`"},
      {"runs[].numerics", "string", "the numerics id"},
      {"runs[].judge", "string", "`golden`, or `reference`: the reference device on the same file"},
      {"runs[].mean_kl", "number or null", "mean over the cases run without adapters, against the golden"},
      {"runs[].mean_kl_cases", "integer", "how many"},
      {"runs[].mean_kl_bar", "number or null", "null: there is no bar"},
      {"runs[].mean_kl_result", "string", "`holds`, `missed`, or `not judged`"},
      {"runs[].median_relative", "number or null",
       "of the rows of logits of all cases: norm of the difference from the judge over the norm of its logits"},
      {"runs[].median_relative_rows", "integer", "how many rows"},
      {"runs[].median_relative_bar", "number or null", "null: there is no bar"},
      {"runs[].median_relative_result", "string", "`holds`, `missed`, or `not judged`"},
      {"runs[].cases[].name", "string", "the golden's name of the case"},
      {"runs[].cases[].kind", "string", "`text`, `chat`, ..."},
      {"runs[].cases[].result", "string", "`holds`, `missed` or `not run`"},
      {"runs[].cases[].reason", "string", "why a case was not run; such a case has only the members up to here"},
      {"runs[].cases[].misses[]", "string", "one sentence a bar that was missed"},
      {"runs[].cases[].golden.largest", "number or null",
       "largest absolute logit difference from the golden; null, as below, when it is not finite"},
      {"runs[].cases[].golden.relative", "number", "norm of the difference over the norm of the golden's logits"},
      {"runs[].cases[].golden.kl", "number or null", "KL divergence, mean over the positions"},
      {"runs[].cases[].golden.top_equal", "number or null", "share of positions with the same best token"},
      {"runs[].cases[].golden.positions", "integer", "positions compared"},
      {"runs[].cases[].reference", "object or null",
       "the same numbers against the reference device, of a quantised file"},
      {"runs[].cases[].reference.largest", "number or null", "as above"},
      {"runs[].cases[].reference.relative", "number or null", "as above"},
      {"runs[].cases[].reference.kl", "number or null", "as above"},
      {"runs[].cases[].reference.top_equal", "number or null", "as above"},
      {"runs[].cases[].reference.positions", "integer", "as above"},
      {"runs[].cases[].greedy", "object or null", "null: the golden has no greedy tokens"},
      {"runs[].cases[].greedy.tokens", "integer", "the judge's"},
      {"runs[].cases[].greedy.equal", "integer", "equal tokens before the first different one"},
      {"runs[].cases[].greedy.margin", "number or null",
       "at the first difference: the judge's best logit minus its second"},
      {"runs[].cases[].perplexity", "number or null", "ours"},
      {"runs[].cases[].judge_perplexity", "number or null", "the judge's"},
      {"runs[].cases[].intermediates", "object or null", "null: the golden has none for this case"},
      {"runs[].cases[].intermediates.compared", "integer", "named intermediates compared"},
      {"runs[].cases[].intermediates.different[].name", "string", "one that differs, the first computed first"},
      {"runs[].cases[].intermediates.different[].error", "number or null", "norm of the difference over the norm"},
      {"runs[].cases[].intermediates.not_compared[]", "string", "one that the compiled program does not have"},
      {"runs[].cases[].intermediates.other_experts", "integer", "tokens with other experts, summed over layers"},
      {"runs[].cases[].training", "object", "of a training case, whose numbers above are 0 or null; else all null"},
      {"runs[].cases[].training.gradient", "number or null",
       "largest over the factors: norm of the difference of the first step's gradient over the norm of the golden's"},
      {"runs[].cases[].training.loss", "number or null", "largest over the steps: difference of the loss, as a share"},
      {"runs[].cases[].training.final", "number or null", "largest over the factors after the last step, as gradient"},
      {"runs[].cases[].training.accumulated", "number or null",
       "largest over the steps: difference of the loss when a batch comes a sequence at a time, as a share"},
      {"runs[].cases[].training.steps", "integer or null", "steps of all runs"},
      {"held", "integer", "cases that hold, over all runs"},
      {"missed", "integer", "cases that missed a bar; a missed mean counts as one"},
      {"not_run", "integer", "cases that could not be run"},
  };
}

}  // namespace sluice
