// A sequence's history: its tokens and each token's class. Logits depend on the history and the numerics id alone.
// A picture or sound has one element for each of its rows; its content names it, and the element's token only holds the
// place.
//
// A run of prompt tokens is cut at absolute multiples of 64 only. A run of decode tokens may be cut anywhere, because
// it was computed token by token.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "graph/program.h"
#include "graph/step.h"

namespace sluice {

// The first bytes of a SHA-256 over a picture or sound and its preparation. All zero: none.
using MediaDigest = std::array<uint8_t, 16>;

// The shape of a picture or sound, as far as the text's positions and attention depend on it.
struct MediaShape {
  // Rows by time, height and width if positions count them so (mrope); zeros: rows follow one another.
  std::array<uint16_t, 3> grid{};
  uint16_t sees_ahead = 0;  // 1: its rows see one another, later ones too
  auto operator<=>(const MediaShape&) const = default;
};

// One row of a picture or sound.
struct MediaRow {
  MediaDigest content{};
  uint32_t row = 0;
  MediaShape shape{};
  auto operator<=>(const MediaRow&) const = default;
};
static_assert(std::has_unique_object_representations_v<MediaRow>);  // its bytes are hashed

struct HistoryToken {
  int32_t token = 0;
  TokenClass token_class = TokenClass::prompt;
  MediaRow media = {};  // stands in the token's place, if its content is set

  bool is_media() const { return media.content != MediaDigest{}; }
  auto operator<=>(const HistoryToken&) const = default;
};
using History = std::vector<HistoryToken>;

// A picture or sound of `rows` rows in a prompt, in the place of as many tokens.
struct MediaSpan {
  uint32_t at = 0;  // index of the first token
  uint32_t rows = 0;
  MediaDigest content{};
  MediaShape shape{};
};

inline constexpr uint32_t kCut = kPagePositions;
constexpr uint32_t cut_below(uint64_t position) { return static_cast<uint32_t>(position / kCut * kCut); }

// Whether elements `at - 1` and `at` are neighbouring rows of one picture or sound.
inline bool is_inside_media(std::span<const HistoryToken> history, size_t at) {
  if (at == 0 || at >= history.size() || !history[at].is_media()) return false;
  const MediaRow &before = history[at - 1].media, &here = history[at].media;
  return here.content == before.content && here.row == before.row + 1;
}

// Whether the computed part of a history may end before element `at` and go on there later. Only this function knows
// the rule. The rows of a picture that sees ahead are computed together.
inline bool may_be_cut_before(std::span<const HistoryToken> history, size_t at) {
  if (at >= history.size()) return true;
  if (history[at].media.shape.sees_ahead != 0 && is_inside_media(history, at)) return false;
  if (at % kCut == 0) return true;
  return history[at - 1].token_class == TokenClass::decode || history[at].token_class == TokenClass::decode;
}

// The last position at or below `at` at which the history may be cut; `at` is at most history.size().
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
