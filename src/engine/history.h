// A sequence's history: its tokens and each token's class. Logits are a function of it (and of the numerics id) alone.
//
// Runs of prompt tokens are cut at absolute multiples of 64 only; a run of decode tokens may be cut anywhere, because
// it was computed token by token.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "graph/program.h"
#include "graph/step.h"

namespace sluice {

struct HistoryToken {
  int32_t token = 0;
  TokenClass token_class = TokenClass::prompt;
  auto operator<=>(const HistoryToken&) const = default;
};
using History = std::vector<HistoryToken>;

inline constexpr uint32_t kCut = kPagePositions;
constexpr uint32_t cut_below(uint64_t position) { return static_cast<uint32_t>(position / kCut * kCut); }

// The largest position <= `at` <= history.size() at which what is computed of `history` may end and go on later.
inline uint32_t last_cut(const History& history, size_t at) {
  const auto inside_prompt_run = [&](size_t i) {
    return i < history.size() && history[i - 1].token_class == TokenClass::prompt &&
           history[i].token_class == TokenClass::prompt;
  };
  while (at % kCut != 0 && inside_prompt_run(at)) --at;
  return static_cast<uint32_t>(at);
}

// The end of the run of one class that begins at `at`. Where classes are bit-equal all known tokens are one run.
inline uint32_t run_end(const History& history, size_t at, bool any_class) {
  const TokenClass token_class = history[at].token_class;
  if (any_class) return static_cast<uint32_t>(history.size());
  while (at < history.size() && history[at].token_class == token_class) ++at;
  return static_cast<uint32_t>(at);
}

}  // namespace sluice
