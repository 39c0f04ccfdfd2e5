// One case of a golden: computed on an engine, compared with its judge, and tested against its bars.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/verify/compare.h"
#include "app/verify/golden.h"
#include "app/verify/verify_bars.h"
#include "app/verify/verify_media.h"
#include "app/verify/verify_trace.h"
#include "app/verify/verify_training.h"
#include "base/result.h"
#include "engine/engine.h"

namespace sluice {

// The engine's results for a case: logits at its positions, the greedy tokens after it, and its perplexity if wanted.
struct GoldenRun {
  std::vector<float> rows;
  std::vector<int32_t> greedy;
  std::optional<double> perplexity;
};
// The production variant: the same program that answers users.
Result<GoldenRun> run_case(Engine& engine, const GoldenCase& golden_case, const CaseMedia& media,
                           const AdapterSum& adapters, uint32_t vocabulary);

// The wanted results of a case.
struct Judgement {
  std::vector<float> rows;
  std::vector<int32_t> greedy;
  std::vector<float> margins;  // of the greedy tokens
  std::optional<double> perplexity;
};
Result<Judgement> judge_by_golden(const Golden& golden, const GoldenCase& golden_case, uint32_t vocabulary);
// `reference` follows our greedy tokens. Up to the first difference they are its own.
Result<Judgement> judge_by_reference(Engine& reference, const GoldenCase& golden_case, const CaseMedia& media,
                                     const AdapterSum& adapters, uint32_t vocabulary, const GoldenRun& ours);
// The golden's named intermediates; empty if it has none.
Result<Trace> golden_values(const Golden& golden, const GoldenCase& golden_case);

struct CaseReport {
  std::string name, kind;
  std::string not_run;               // why; else empty
  LogitErrors golden;                // against the golden
  std::optional<LogitErrors> judge;  // against the reference device, if that is the judge
  GreedyResult greedy;
  size_t greedy_tokens = 0;  // the judge's; 0: the golden has none
  std::optional<double> perplexity, judge_perplexity;
  std::optional<TraceErrors> trace;
  std::optional<TrainErrors> training;  // of a training case, which has none of the numbers above
  std::vector<std::string> misses;      // each "what: found X: want Y"; empty: every bar holds
};

// Fills and judges everything but `trace` and the results of chat cases.
CaseReport report_case(const GoldenCase& golden_case, const GoldenRun& ours, const Judgement& golden,
                       const Judgement* reference, uint32_t vocabulary, const Bars& bars);
void report_trace(CaseReport& report, TraceErrors errors, const Bars& bars);

}  // namespace sluice
