// The results of verify, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "app/cli/args.h"
#include "app/verify/verify_bars.h"
#include "app/verify/verify_case.h"
#include "base/json.h"
#include "device/device.h"

namespace sluice {

// All cases in one arithmetic.
struct VerifyRun {
  Arithmetic arithmetic{};
  std::string numerics_id;
  Bars bars;
  std::vector<CaseReport> cases;
  int kl_cases = 0;            // how many cases the mean is over
  double mean_kl = 0;          // against the golden
  std::string kl_miss;         // empty: the bar holds, or is not tested
  size_t rows = 0;             // rows of logits in all cases
  double median_relative = 0;  // the median of their differences from the judge
  std::string median_miss;     // as kl_miss
};
// Fills the mean and judges it.
void sum_up(VerifyRun& run);

struct VerifyReport {
  std::string model, golden, golden_model, device;
  FileKind file;
  std::vector<VerifyRun> runs;
};

struct VerifyCounts {
  int held = 0, missed = 0, not_run = 0;  // cases of all runs; a missed mean counts as one
};
VerifyCounts count_cases(const VerifyReport& report);
std::string summary_line(const VerifyCounts& counts);  // "verify: 10 cases hold, 0 missed, 8 not run"

const char* arithmetic_name(Arithmetic arithmetic);
std::string report_text(const VerifyReport& report);  // the last line is the summary
Json report_json(const VerifyReport& report);
std::vector<JsonField> report_fields();

}  // namespace sluice
