// A draft case of a golden: what the model's draft head guesses behind a prompt, each guess from the golden's tokens
// before it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "app/verify/verify_case.h"
#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "model/model.h"

namespace sluice {

struct DraftRun {
  GoldenRun guesses;  // the logits of each guess, and the tokens that they choose
  Trace values;       // under the golden's names
};
Result<DraftRun> run_drafts(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic,
                            const GoldenCase& golden_case);
// A head that looks at a few clusters of tokens gives all other tokens one logit. A rounding may change which cluster
// is the last. Where the tokens that both looked at are not the same, the others take the judge's logits here.
void leave_out_other_clusters(std::vector<float>& ours, std::span<const float> judge, size_t vocabulary);
// The results of another device as a judge.
Judgement judge_by(DraftRun run, uint32_t vocabulary);

}  // namespace sluice
