// Fills a step buffer from sequences: tokens, positions, page tables, wanted rows, sampling.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/adapters/adapter_slots.h"
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
  std::span<const uint32_t> mask = {};  // empty: every token may come
};

// The sampling behind the history's last row, then behind each guess. For a guess, it and the guesses before it count
// as part of the history.
std::vector<RowSampling> row_samplings(const SamplingSettings& settings, uint32_t choice, const History& history,
                                       std::span<const int32_t> guesses, std::span<const int32_t> suppressed);

// Rows [begin, end) of a sequence whose pages are provided. Rows behind its history are drafts.
struct StepPart {
  const CachedHistory* sequence = nullptr;  // with the grids of its whole history, for a program with coordinates
  std::span<const int32_t> drafts = {};
  uint32_t begin = 0;
  uint32_t end = 0;
  std::vector<const float*> media = {};    // by row, for a program with media; null: the row is a token's
  std::vector<uint32_t> wanted = {};       // positions, ascending, with the last row's
  std::vector<RowSampling> sampling = {};  // of the last wanted rows; samples of the others are ignored
  AdapterRow adapter = {};                 // of every row, for a program with adapters
};

// The tokens of the part's rows, as the program takes them.
std::vector<int32_t> input_tokens(const Program& program, const StepPart& part);

// Where a part begins in a step: behind so many rows, and so many rows of pictures and sounds.
struct PartPlace {
  uint32_t row = 0;
  uint32_t media = 0;
};
// The part's rows as fill_step() has them: tokens, positions, adapters, and what they show.
void fill_rows(StepBuffer& step, const TextPorts& ports, uint32_t sequence, const StepPart& part, const PartPlace& at);

// The parts become the step's sequences in this order. Wanted rows and results are in the same order.
void fill_step(StepBuffer& step, const TextPorts& ports, TokenClass token_class, std::span<const StepPart> parts);

// A step for timing: the `rows` rows before position `end` of one text of random tokens. The text lies in the first
// pages of every group. The last row is wanted and sampled greedily. The step must have room for the rows.
void fill_alone(StepBuffer& step, const TextPorts& ports, TokenClass token_class, uint32_t rows, uint32_t end,
                uint32_t vocabulary);

}  // namespace sluice
