// The output of sluice bench: tables for people, one JSON object for programs.
#pragma once

#include <string>
#include <vector>

#include "app/bench/bench_ops.h"
#include "app/bench/bench_routing.h"
#include "app/bench/bench_runs.h"
#include "app/cli/args.h"
#include "base/json.h"

namespace sluice {

struct BenchFacts {
  std::string model, format, device, arithmetic, numerics_id;
  uint32_t threads = 0;
  uint64_t parameters = 0, weight_bytes = 0;
  Peaks peaks;
  RoutingShares routing;
  double ready_seconds = 0;  // to open the model, place it and pack what is packed before the first token; 0: not known
};

struct BenchReport {
  BenchFacts facts;
  std::vector<BenchResult> results;
  std::vector<std::vector<OpShare>> ops;  // of each result, if asked for
  uint64_t disk_block = 0;                // bytes of one read of experts, if experts are read
  double foreseen = 0;                    // forecast tokens a second of one sequence's first answer; 0: none
};

std::string bench_text(const BenchFacts& facts);    // what is measured on what
std::string bench_head();                           // of the table
std::string bench_line(const BenchResult& result);  // a line of it
// "12.3 ms (12.1 to 13.0)": the numbers times `factor`.
std::string spread_text(const Spread& spread, double factor, const char* unit);
// A line for each kind of op. `bandwidth`: of memory in bytes a second.
std::string ops_table(const BenchFacts& facts, double bandwidth, const std::vector<OpShare>& shares);
std::string ops_text(const BenchFacts& facts, const BenchResult& result, const std::vector<OpShare>& shares);
std::string disk_text(const BenchReport& report);  // a line for each result
Json bench_json(const BenchReport& report);
std::vector<JsonField> bench_fields();

}  // namespace sluice
