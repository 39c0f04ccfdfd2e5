// A draft case of a golden: what the model's draft head guesses behind a prompt, each guess from the golden's tokens
// before it.
#pragma once

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
// The results of another device as a judge.
Judgement judge_by(DraftRun run, uint32_t vocabulary);

}  // namespace sluice
