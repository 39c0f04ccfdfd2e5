// A trace: every named intermediate of one prompt. `verify` finds the first one that differs.
//
// The tokens run once, as one prompt. The plan of a trace keeps every named value for all rows, so ops that are fused
// in a usual plan may be unfused here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/engine.h"
#include "model/model.h"

namespace sluice {

// [rows, columns]; heads side by side. The list of the value's element type is filled.
struct TracedValue {
  std::string name;
  size_t rows = 0;
  size_t columns = 0;
  std::vector<float> floats;
  std::vector<int32_t> integers;
};

// In the order of the program; logits come last, named "logits".
using Trace = std::vector<TracedValue>;

// Tokens, and what stands in the place of some.
struct TracedPrompt {
  std::span<const int32_t> tokens;
  std::vector<MediaInput> media = {};  // its rows are traced as "vision.soft_tokens" and "audio.soft_tokens"
  std::vector<MediaSpan> spans = {};
  AdapterSum adapters = {};
};

Result<Trace> trace(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic,
                    const TracedPrompt& prompt);
// What a draft head computes behind a prompt.
struct DraftTrace {
  Trace text;    // the text program's outputs that the head takes, by their names; "hidden" has the prompt's last row
  Trace drafts;  // the head's named values, its output "hidden" and its logits; a row for each guess
};
// `tokens`: of the prompt, and behind it the tokens from which guesses are made: the one that the text sampled, then
// the drafted ones. The text program is the one that answers; the model must have a draft head.
Result<DraftTrace> trace_drafts(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic,
                                std::span<const int32_t> prompt, std::span<const int32_t> tokens);
// For any text program whose model has no towers.
Result<Trace> trace(const Program& program, const WeightSource& weights, Device& device, Budget& budget,
                    Arithmetic arithmetic, std::span<const int32_t> tokens);

}  // namespace sluice
