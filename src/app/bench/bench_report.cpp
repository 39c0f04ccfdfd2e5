#include "app/bench/bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace sluice {
namespace {

constexpr double kGiga = 1e9;

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// Four digits or more: "812.3", "23.10", "0.1234".
std::string digits(double value) {
  return fixed(value, std::clamp(3 - static_cast<int>(std::floor(std::log10(std::max(value, 1e-4)))), 0, 4));
}

// "1.474 GB"
std::string bytes_text(double bytes) {
  static constexpr std::pair<double, const char*> kUnits[] = {{1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}};
  for (const auto& [unit, name] : kUnits)
    if (bytes >= unit) return digits(bytes / unit) + name;
  return digits(bytes) + " B";
}

std::string percent(double share) { return cat(fixed(100 * share, share < 0.0995 ? 1 : 0), " %"); }

// Cells side by side, each as wide as its column; numbers to the right.
struct Column {
  size_t width = 0;
  bool left = false;
};
std::string row(const std::vector<Column>& columns, const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string space(columns[i].width - std::min(columns[i].width, cells[i].size()), ' ');
    line += cat(i == 0 ? "" : "  ", columns[i].left ? cells[i] + space : space + cells[i]);
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line + '\n';
}

std::string peaks_text(const Peaks& peaks) {
  if (peaks.f32 == 0) return "not known";
  const std::string integers = peaks.integers == 0 ? "" : cat(", 8-bit integers ", fixed(peaks.integers / kGiga, 0));
  return cat("f32 ", fixed(peaks.f32 / kGiga, 0), " GFLOP/s", integers);
}

std::vector<std::string> bench_cells(const BenchResult& result) {
  const Spread& speed = result.tokens_per_second;
  return {cat(token_class_name(result.test.token_class), " ", result.test.length),
          cat(result.test.depth),
          cat(result.test.batch),
          digits(speed.median),
          cat(digits(speed.least), " to ", digits(speed.most)),
          bytes_text(result.bytes_per_token),
          result.bandwidth.median > 0 ? fixed(result.bandwidth.median / kGiga, 1) : "-",
          result.bandwidth.median > 0 ? percent(result.share) : "-"};
}

const std::vector<Column>& bench_columns() {
  static const std::vector<Column> kColumns = {{13, true}, {6}, {5}, {8}, {17}, {13}, {9}, {8}};
  return kColumns;
}

Json spread_json(const Spread& spread) {
  return Json::Object{{"median", spread.median}, {"least", spread.least}, {"most", spread.most}};
}

Json ops_json(const std::vector<OpShare>& shares, double bandwidth, const Peaks& peaks) {
  Json::Array list;
  list.reserve(shares.size());
  for (const OpShare& share : shares) {
    list.emplace_back(Json::Object{{"op", share.op},
                                   {"shape", share.shape},
                                   {"calls", static_cast<int64_t>(share.calls)},
                                   {"seconds", share.seconds},
                                   {"bytes", static_cast<int64_t>(share.cost.bytes())},
                                   {"flops", static_cast<int64_t>(share.cost.flops)},
                                   {"limit_share", share.limit_share(bandwidth, peaks)}});
  }
  return list;
}

}  // namespace

std::string bench_text(const BenchFacts& facts) {
  std::string text =
      cat("model     ", printable(facts.model), ", ", facts.format, ": ",
          fixed(static_cast<double>(facts.parameters) / kGiga, 3), " B parameters, ", format_bytes(facts.weight_bytes),
          "\ndevice    ", facts.device, "\npeaks     ", peaks_text(facts.peaks), "\n");
  if (!facts.numerics_id.empty()) text += cat("numerics  ", facts.numerics_id, "\n");
  if (facts.ready_seconds > 0) text += cat("ready     after ", digits(facts.ready_seconds), " s\n");
  if (!facts.routing.chosen.empty())
    text += cat("routing   the favourite eighth of the ", facts.routing.chosen.size(), " experts gets ",
                percent(facts.routing.favourites()), " of the choices, the first of all ",
                percent(facts.routing.chosen.front()), " of the tokens, over ", facts.routing.tokens, " tokens\n");
  return text;
}

std::string bench_head() {
  return cat('\n', row(bench_columns(), {"test", "depth", "batch", "tokens/s", "least to most", "bytes a token",
                                         "read GB/s", "of that"}));
}

std::string bench_line(const BenchResult& result) { return row(bench_columns(), bench_cells(result)); }

std::string spread_text(const Spread& spread, double factor, const char* unit) {
  return cat(fixed(spread.median * factor, 1), unit, " (", fixed(spread.least * factor, 1), " to ",
             fixed(spread.most * factor, 1), ")");
}

std::string ops_table(const BenchFacts& facts, double bandwidth, const std::vector<OpShare>& shares) {
  double all = 0;
  size_t widest = 5;
  for (const OpShare& share : shares) {
    all += share.seconds;
    widest = std::max(widest, share.shape.size());
  }
  const std::vector<Column> columns = {{16, true}, {widest, true}, {6}, {10}, {7}, {7}, {9}, {8}};
  std::string text = row(columns, {"op", "shape", "calls", "us a call", "of all", "GB/s", "GFLOP/s", "of limit"});
  for (const OpShare& share : shares) {
    const double seconds = std::max(share.seconds, 1e-12);
    const double rate = static_cast<double>(share.cost.bytes()) / seconds;
    text +=
        row(columns, {share.op, share.shape, cat(share.calls),
                      fixed(share.seconds * 1e6 / static_cast<double>(share.calls), 1), percent(share.seconds / all),
                      fixed(rate / kGiga, 1), fixed(static_cast<double>(share.cost.flops) / seconds / kGiga, 1),
                      percent(share.limit_share(bandwidth, facts.peaks))});
  }
  return text;
}

std::string ops_text(const BenchFacts& facts, const BenchResult& result, const std::vector<OpShare>& shares) {
  const std::vector<std::string> cells = bench_cells(result);
  return cat("\nops of ", cells[0], ", depth ", cells[1], ", batch ", cells[2], "\n",
             ops_table(facts, result.bandwidth.median, shares));
}

std::string disk_text(const BenchReport& report) {
  std::string text;
  const auto spread = [](const Spread& rate) {
    return cat(fixed(rate.median / kGiga, 2), " GB/s (", fixed(rate.least / kGiga, 2), " to ",
               fixed(rate.most / kGiga, 2), ")");
  };
  for (const BenchResult& result : report.results)
    if (result.disk_bandwidth.least > 0)
      text += cat("disk    ", bench_cells(result).front(), " reads ", spread(result.disk_rate), ", ",
                  percent(result.disk_share.median), " (", percent(result.disk_share.least), " to ",
                  percent(result.disk_share.most), ") of nothing but reads of ",
                  bytes_text(static_cast<double>(report.disk_block)), ", ", spread(result.disk_bandwidth), "\n");
  return text;
}

Json bench_json(const BenchReport& report) {
  Json::Array tests;
  for (size_t i = 0; i < report.results.size(); ++i) {
    const BenchResult& result = report.results[i];
    Json::Object test = {{"kind", token_class_name(result.test.token_class)},
                         {"length", int64_t{result.test.length}},
                         {"depth", int64_t{result.test.depth}},
                         {"batch", int64_t{result.test.batch}},
                         {"tokens_per_second", spread_json(result.tokens_per_second)},
                         {"bytes_per_token", result.bytes_per_token},
                         {"read_bandwidth", spread_json(result.bandwidth)},
                         {"bandwidth_share", result.share},
                         {"disk_rate", spread_json(result.disk_rate)},
                         {"disk_bandwidth", spread_json(result.disk_bandwidth)},
                         {"disk_share", spread_json(result.disk_share)}};
    if (i < report.ops.size())
      test.emplace_back("ops", ops_json(report.ops[i], result.bandwidth.median, report.facts.peaks));
    tests.emplace_back(std::move(test));
  }
  const BenchFacts& facts = report.facts;
  Json::Array routing;
  routing.reserve(facts.routing.chosen.size());
  for (const double chosen : facts.routing.chosen) routing.emplace_back(chosen);
  return Json::Object{{"model", facts.model},
                      {"format", facts.format},
                      {"parameters", static_cast<int64_t>(facts.parameters)},
                      {"weight_bytes", static_cast<int64_t>(facts.weight_bytes)},
                      {"device", facts.device},
                      {"threads", int64_t{facts.threads}},
                      {"arithmetic", facts.arithmetic},
                      {"numerics", facts.numerics_id},
                      {"ready_seconds", facts.ready_seconds},
                      {"peak_f32_flops", facts.peaks.f32},
                      {"peak_integer_flops", facts.peaks.integers},
                      {"routing", std::move(routing)},
                      {"disk_block", static_cast<int64_t>(report.disk_block)},
                      {"foreseen_tokens_per_second", report.foreseen},
                      {"tests", std::move(tests)}};
}

std::vector<JsonField> bench_fields() {
  return {
      {"model", "string", "the file, or the shape"},
      {"format", "string", "the weight format of the whole model"},
      {"parameters", "integer", "of the text model"},
      {"weight_bytes", "integer", "of all its weights"},
      {"device", "string", "processor, instruction set, threads"},
      {"threads", "integer", "of the pool"},
      {"arithmetic", "string", "`exact` or `fast`"},
      {"numerics", "string", "the numerics id"},
      {"ready_seconds", "number",
       "to open the model, place it and pack what is packed before the first token; of a synthetic model also to make "
       "it"},
      {"peak_f32_flops", "number", "multiplications and additions a second, measured; 0 if unknown"},
      {"peak_integer_flops", "number", "the same for 8-bit integers; 0 in exact arithmetic"},
      {"routing[]", "number", "the share of tokens that choose an expert, the most used one first"},
      {"disk_block", "integer", "bytes of one read of experts; 0 if none is read"},
      {"foreseen_tokens_per_second", "number",
       "before the model was placed, of the first answer of one sequence; 0 where it was not: as `run --stats` says"},
      {"tests[].kind", "string", "`prompt` or `decode`"},
      {"tests[].length", "integer", "tokens of each sequence"},
      {"tests[].depth", "integer", "tokens before them"},
      {"tests[].batch", "integer", "sequences at once"},
      {"tests[].tokens_per_second.median", "number", "of the rounds, all sequences together"},
      {"tests[].tokens_per_second.least", "number", ""},
      {"tests[].tokens_per_second.most", "number", ""},
      {"tests[].bytes_per_token", "number", "weights and cache that a token needs read or written"},
      {"tests[].read_bandwidth.median", "number",
       "bytes a second at which memory was read, before each round; on a GPU, copied there; 0: not known"},
      {"tests[].read_bandwidth.least", "number", ""},
      {"tests[].read_bandwidth.most", "number", ""},
      {"tests[].bandwidth_share", "number", "bytes_per_token times tokens_per_second over read_bandwidth"},
      {"tests[].disk_rate.median", "number", "bytes a second of experts read from the file; 0 if none is read"},
      {"tests[].disk_rate.least", "number", ""},
      {"tests[].disk_rate.most", "number", ""},
      {"tests[].disk_bandwidth.median", "number", "of reads of disk_block alone, before each round"},
      {"tests[].disk_bandwidth.least", "number", ""},
      {"tests[].disk_bandwidth.most", "number", ""},
      {"tests[].disk_share.median", "number", "disk_rate over disk_bandwidth, round by round"},
      {"tests[].disk_share.least", "number", ""},
      {"tests[].disk_share.most", "number", ""},
      {"tests[].ops[].op", "string", "the op, or the block in which several ops are computed"},
      {"tests[].ops[].shape", "string", "formats and shapes of its matrices, else the shape of a row"},
      {"tests[].ops[].calls", "integer", "in one round"},
      {"tests[].ops[].seconds", "number", "of them all"},
      {"tests[].ops[].bytes", "integer", "weights, cache, operands and results, each once"},
      {"tests[].ops[].flops", "integer", ""},
      {"tests[].ops[].limit_share", "number",
       "the time that the bytes need at read_bandwidth, or the flops at the peak, over seconds"},
  };
}

}  // namespace sluice
