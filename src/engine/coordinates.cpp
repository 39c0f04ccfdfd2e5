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

std::vector<GridRun> grid_runs(std::span<const HistoryToken> history) {
  std::vector<GridRun> runs;
  for (size_t at = 0; at < history.size(); ++at) {
    const std::array<uint16_t, kCoordinates>& grid = history[at].media.shape.grid;
    if (std::ranges::find(grid, 0) != grid.end()) continue;
    if (runs.empty() || runs.back().at + runs.back().rows != at || !is_inside_media(history, at))
      runs.push_back({.at = static_cast<uint32_t>(at), .grid = {grid[0], grid[1], grid[2]}});
    ++runs.back().rows;
  }
  return runs;
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
