// A sequence's history: its tokens and each token's class. Logits are a function of it (and of the numerics id) alone.
// A picture or a sound stands in it row by row, named by its content: the tokens of those rows hold their places only.
//
// Runs of prompt tokens are cut at absolute multiples of 64 only; a run of decode tokens may be cut anywhere, because
// it was computed token by token.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"
#include "graph/step.h"

namespace sluice {

// The first bytes of a picture's or sound's SHA-256, and of how it was prepared. All zero: none.
using MediaDigest = std::array<uint8_t, 16>;

// A row that a picture or sound becomes.
struct MediaRow {
  MediaDigest content{};
  uint32_t row = 0;
  auto operator<=>(const MediaRow&) const = default;
};

struct HistoryToken {
  int32_t token = 0;
  TokenClass token_class = TokenClass::prompt;
  MediaRow media = {};  // that stands here in the token's place, if any

  bool is_media() const { return media.content != MediaDigest{}; }
  auto operator<=>(const HistoryToken&) const = default;
};
using History = std::vector<HistoryToken>;

// Rows [0, rows) of a picture or sound, in the place of as many tokens of a prompt.
struct MediaSpan {
  uint32_t at = 0;  // index of the first
  uint32_t rows = 0;
  MediaDigest content{};
};

inline constexpr uint32_t kCut = kPagePositions;
constexpr uint32_t cut_below(uint64_t position) { return static_cast<uint32_t>(position / kCut * kCut); }

// Whether what is computed of a history may end before element `at` and go on there later. The one place that knows the
// rule: a picture that sees ahead will forbid its own elements here.
inline bool may_be_cut_before(std::span<const HistoryToken> history, size_t at) {
  if (at % kCut == 0 || at >= history.size()) return true;
  return history[at - 1].token_class == TokenClass::decode || history[at].token_class == TokenClass::decode;
}

// The largest position <= `at` <= history.size() at which what is computed of `history` may end and go on later.
inline uint32_t last_cut(const History& history, size_t at) {
  while (!may_be_cut_before(history, at)) --at;
  return static_cast<uint32_t>(at);
}

// The end of the block that begins at `at`: the next multiple of 64 at which the run may be cut, at most `end`.
inline uint32_t block_end(std::span<const HistoryToken> history, uint32_t at, uint32_t end) {
  uint32_t cut = cut_below(at) + kCut;
  while (cut < end && !may_be_cut_before(history, cut)) cut += kCut;
  return cut < end ? cut : end;
}

// The end of the run of one class that begins at `at`. Where classes are bit-equal all known tokens are one run.
inline uint32_t run_end(const History& history, size_t at, bool any_class) {
  const TokenClass token_class = history[at].token_class;
  if (any_class) return static_cast<uint32_t>(history.size());
  while (at < history.size() && history[at].token_class == token_class) ++at;
  return static_cast<uint32_t>(at);
}

}  // namespace sluice
