#include "engine/coordinates.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {
namespace {

// How many tokens' worth of numbers a picture takes.
int64_t length_of(const GridRun& run) { return std::max(run.grid[1], run.grid[2]); }

std::array<int64_t, kCoordinates> place_in_grid(const GridRun& run, uint32_t row) {
  const auto& [time, height, width] = run.grid;
  return {row / width / height, row / width % height, row % width};
}

}  // namespace

void GridRuns::extend(std::span<const HistoryToken> history) {
  CHECK(history.size() >= length_);
  for (; length_ < history.size(); ++length_) {
    const std::array<uint16_t, kCoordinates>& grid = history[length_].media.shape.grid;
    if (std::ranges::find(grid, 0) != grid.end()) continue;
    if (runs_.empty() || runs_.back().at + runs_.back().rows != length_ || !is_inside_media(history, length_))
      runs_.push_back({.at = static_cast<uint32_t>(length_), .grid = {grid[0], grid[1], grid[2]}});
    ++runs_.back().rows;
  }
}

void GridRuns::truncate(size_t length) {
  while (!runs_.empty() && runs_.back().at >= length) runs_.pop_back();
  if (!runs_.empty()) {
    GridRun& last = runs_.back();
    last.rows = static_cast<uint32_t>(std::min<size_t>(last.rows, length - last.at));
  }
  length_ = std::min(length_, length);
}

void fill_coordinates(std::span<const GridRun> runs, uint32_t begin, uint32_t end, std::span<int32_t> into) {
  CHECK(into.size() == uint64_t{end - begin} * kCoordinates);
  auto run = runs.begin();
  int64_t ahead = 0;  // of the position: the number of the next token less its position
  auto out = into.begin();
  for (uint32_t position = begin; position < end; ++position) {
    for (; run != runs.end() && run->at + run->rows <= position; ++run) ahead += length_of(*run) - run->rows;
    const bool in_run = run != runs.end() && run->at <= position;
    std::array<int64_t, kCoordinates> place{};
    if (in_run) place = place_in_grid(*run, position - run->at);
    const int64_t number = ahead + (in_run ? run->at : position);
    for (const int64_t offset : place) *out++ = static_cast<int32_t>(number + offset);
  }
}

}  // namespace sluice
