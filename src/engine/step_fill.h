// Filling a step buffer from sequences: tokens, positions, page tables, wanted rows, sampling.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/plan/layout.h"
#include "engine/sampling.h"
#include "engine/state/cache.h"
#include "graph/step.h"

namespace sluice {

// "prompt: token 3 is 70000: want 0 to 4095"
Status check_tokens(std::string_view where, std::span<const int32_t> tokens, uint32_t vocabulary);

// How the token behind a row is sampled.
struct RowSampling {
  SampleRow row = {};
  std::vector<Adjustment> adjustments = {};
};

// As if each of the `guesses` were part of the history for what follows it: the row behind the history, then theirs.
std::vector<RowSampling> row_samplings(const SamplingSettings& settings, uint32_t choice, const History& history,
                                       std::span<const int32_t> guesses, std::span<const int32_t> suppressed);

// Rows [begin, end) of a sequence, whose pages are provided. Behind its history come drafts.
struct StepPart {
  const CachedHistory* sequence = nullptr;
  std::span<const int32_t> drafts = {};
  uint32_t begin = 0;
  uint32_t end = 0;
  std::vector<const float*> media = {};    // by row, for a program with media; null: the row is a token's
  std::vector<uint32_t> wanted = {};       // positions, ascending, the last row's among them
  std::vector<RowSampling> sampling = {};  // of the last ones; what others sample is not looked at
};

// The tokens that the program is given for the part's rows.
std::vector<int32_t> input_tokens(const Program& program, const StepPart& part);

// Parts become the step's sequences in their order; wanted rows and their results follow part by part.
void fill_step(StepBuffer& step, const TextPorts& ports, TokenClass token_class, std::span<const StepPart> parts);

// The `rows` rows before position `end` of a text of random tokens that lies in the first pages of every group, alone
// in the step, the last one wanted and greedily sampled: to learn how long steps take. The step has room for them.
void fill_alone(StepBuffer& step, const TextPorts& ports, TokenClass token_class, uint32_t rows, uint32_t end,
                uint32_t vocabulary);

}  // namespace sluice
