// Coordinates of a history's elements, for models whose rotary embeddings turn by time, height and width (multimodal
// rotary embeddings, mrope).
//
// A token has one number for all three: one more than the element before it. The rows of a picture count from that
// number on: time, row and column of their grid are added to it. The token behind a picture goes on as if the picture
// had been max(height, width) tokens long. Source: transformers Qwen3_5Model.get_rope_index (5.17.0), for which every
// pair of a film's frames is a picture of its own.
//
// Coordinates follow from the history alone, so cached keys, which are turned already, are right wherever a history
// begins alike.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/history.h"

namespace sluice {

inline constexpr uint32_t kCoordinates = 3;  // time, height, width

// Rows of one picture in a history. The first `rows` rows of the grid are there: all of them, unless the history was
// cut within the picture.
struct GridRun {
  uint32_t at = 0;  // position of the first
  uint32_t rows = 0;
  std::array<uint32_t, kCoordinates> grid{};  // time, height and width in rows
};

// The runs of a history whose rows count by time, height and width. A history grows by a token a step, so the runs of
// the elements before it are kept.
class GridRuns {
 public:
  // Adds the elements behind those that were added before. `history` begins with the latter.
  void extend(std::span<const HistoryToken> history);
  // The history was cut to its first `length` elements.
  void truncate(size_t length);

  const std::vector<GridRun>& list() const { return runs_; }
  size_t length() const { return length_; }  // elements that were added

 private:
  std::vector<GridRun> runs_;
  size_t length_ = 0;
};

// The coordinates of positions [begin, end), three for each. Runs are ascending and apart; their grids have no zero.
void fill_coordinates(std::span<const GridRun> runs, uint32_t begin, uint32_t end, std::span<int32_t> into);

}  // namespace sluice
