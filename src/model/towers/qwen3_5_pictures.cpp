#include "model/towers/qwen3_5_pictures.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "media/resize.h"
#include "media/sizes.h"
#include "model/towers/patches.h"

namespace sluice::qwen3_5 {
namespace {

constexpr uint32_t kColours = 3;

// --- pixels

// The value of each byte, for each colour.
using ColourTable = std::array<ByteValues, kColours>;

ColourTable colour_table(const VisionConfig& c) {
  ColourTable table{};
  for (uint32_t colour = 0; colour < kColours; ++colour)
    for (uint32_t byte = 0; byte < table[colour].size(); ++byte)
      table[colour][byte] = (static_cast<float>(byte) / 255.0f - c.mean[colour]) / c.deviation[colour];
  return table;
}

// The distances in a patch from a number to that of the next colour, frame, line and pixel.
struct PatchSteps {
  uint32_t colour = 0, frame = 0, y = 0, x = 0;
};

PatchSteps steps_of(const VisionConfig& c) {
  const uint32_t square = c.patch * c.patch;
  switch (c.order) {
    case PatchOrder::frame_channel: return {square, kColours * square, c.patch, 1};
    case PatchOrder::channel_last: return {1, kColours * square, kColours * c.patch, kColours};
    case PatchOrder::channel_frame: break;
  }
  return {c.frames * square, square, c.patch, 1};
}

// Writes the numbers of one frame of a patch.
void fill_patch(const Picture& frame, const PatchPlace& place, uint32_t side, const ColourTable& table,
                const PatchSteps& steps, uint32_t* to) {
  for (uint32_t y = 0; y < side; ++y) {
    const size_t line = size_t{place.y} * side + y;
    const uint8_t* pixel = frame.pixels.data() + (line * frame.width + size_t{place.x} * side) * kColours;
    for (uint32_t x = 0; x < side; ++x, pixel += kColours)
      for (uint32_t colour = 0; colour < kColours; ++colour)
        to[y * steps.y + x * steps.x + colour * steps.colour] = std::bit_cast<uint32_t>(table[colour][pixel[colour]]);
  }
}

std::vector<uint32_t> patches_of(const VisionConfig& c, std::span<const Picture> frames,
                                 std::span<const PatchPlace> places) {
  const ColourTable table = colour_table(c);
  const PatchSteps steps = steps_of(c);
  std::vector<uint32_t> patches(places.size() * c.patch_elements());
  uint32_t* to = patches.data();
  for (const PatchPlace& place : places) {
    for (uint32_t i = 0; i < c.frames; ++i) {
      const Picture& frame = frames[std::min<size_t>(i, frames.size() - 1)];
      fill_patch(frame, place, c.patch, table, steps, to + size_t{i} * steps.frame);
    }
    to += c.patch_elements();
  }
  return patches;
}

// --- positions

// The two entries of the position table between which a place lies, in one direction, and the share of each. The first
// of `count` places is at the table's first entry, the last place at its last entry.
struct Between {
  uint32_t low = 0, high = 0;
  float low_share = 1, high_share = 0;
};

Between between(uint32_t index, uint32_t count, uint32_t side) {
  const float place = static_cast<float>(index * (side - 1)) / static_cast<float>(std::max(count - 1, 1u));
  const float low = std::floor(place), share = place - low;
  const auto entry = static_cast<uint32_t>(low);
  return {.low = entry, .high = std::min(entry + 1, side - 1), .low_share = 1 - share, .high_share = share};
}

// The entries around each of `count` places, in one direction.
std::vector<Between> all_between(uint32_t count, uint32_t side) {
  std::vector<Between> all;
  all.reserve(count);
  for (uint32_t index = 0; index < count; ++index) all.push_back(between(index, count, side));
  return all;
}

// --- inputs

struct Grid {
  uint32_t columns = 0, rows = 0;  // of patches
};

void add_positions(const VisionConfig& c, const Grid& grid, std::span<const PatchPlace> places, TowerInputs& made) {
  const std::vector<Between> across = all_between(grid.columns, c.side), down = all_between(grid.rows, c.side);
  TowerInput ids{"position_ids", {}}, shares{"position_shares", {}}, coordinates{"coordinates", {}};
  for (const PatchPlace& place : places) {
    const Between &x = across[place.x], &y = down[place.y];
    for (const auto& [line, line_share] : {std::pair(y.low, y.low_share), std::pair(y.high, y.high_share)})
      for (const auto& [entry, share] : {std::pair(x.low, x.low_share), std::pair(x.high, x.high_share)}) {
        ids.words.push_back(line * c.side + entry);
        shares.words.push_back(std::bit_cast<uint32_t>(line_share * share));
      }
    coordinates.words.insert(coordinates.words.end(), {place.y, place.x});
  }
  for (TowerInput* input : {&ids, &shares, &coordinates}) made.inputs.push_back(std::move(*input));
}

// The tower's inputs. All frames must have the same size, a whole number of blocks.
TowerInputs inputs_of(const VisionConfig& c, std::span<const Picture> frames) {
  const Grid grid{.columns = frames[0].width / c.patch, .rows = frames[0].height / c.patch};
  const std::vector<PatchPlace> places = patch_places(grid.columns, grid.rows, c.merge);
  const auto count = static_cast<uint32_t>(places.size());
  TowerInputs made{.rows = count / c.patches_per_row(), .grid = {1, grid.rows / c.merge, grid.columns / c.merge}};
  made.inputs.push_back({"patches", patches_of(c, frames, places)});  // a list in braces would copy it
  add_positions(c, grid, places, made);
  made.inputs.push_back({"first", std::vector<uint32_t>(count, 0)});
  made.inputs.push_back({"last", std::vector<uint32_t>(count, count - 1)});
  return made;
}

// The range, limited to `rows` rows of `pixels` each; 0 rows: no further limit.
PixelRange limited(PixelRange range, uint32_t rows, uint64_t pixels) {
  if (rows != 0) range.most = std::min(range.most, rows * pixels);
  return {.least = std::min(range.least, range.most), .most = range.most};
}

Result<std::vector<Picture>> resized(const VisionConfig& c, std::span<const Picture> frames, const PixelRange& range) {
  if (frames[0].width == 0 || frames[0].height == 0)
    return error(ErrorKind::invalid, "picture: is ", frames[0].width, " x ", frames[0].height, ": want pixels");
  TRY(const PictureSize size, size_for_pixels({frames[0].width, frames[0].height}, c.patch * c.merge, range));
  std::vector<Picture> made;
  for (const Picture& frame : frames) {
    if (frame.width != frames[0].width || frame.height != frames[0].height)
      return error(ErrorKind::invalid, "picture: is ", frame.width, " x ", frame.height, ": want ", frames[0].width,
                   " x ", frames[0].height, ", as the film's first frame");
    const bool as_it_is = frame.width == size.width && frame.height == size.height;
    made.push_back(as_it_is ? frame : resize_bicubic(frame, size.width, size.height));
  }
  return made;
}

// --- films

constexpr double kFilmRate = 2;  // frames a second
constexpr uint64_t kLeastFrames = 4, kMostFrames = 768;

std::vector<uint64_t> chosen_frames(uint64_t frames, double rate) {
  const double wanted = static_cast<double>(frames) / rate * kFilmRate;
  const uint64_t whole = wanted < static_cast<double>(kMostFrames) ? static_cast<uint64_t>(wanted) : kMostFrames;
  const uint64_t count = std::min(std::max(whole, kLeastFrames), frames);
  std::vector<uint64_t> chosen;
  chosen.reserve(static_cast<size_t>(count));
  const double step = count < 2 ? 0 : static_cast<double>(frames - 1) / static_cast<double>(count - 1);
  for (uint64_t i = 0; i < count; ++i)
    chosen.push_back(static_cast<uint64_t>(std::nearbyint(static_cast<double>(i) * step)));
  if (count > 1) chosen.back() = frames - 1;
  return chosen;
}

std::string step_stamp(std::span<const double> seconds, bool) {
  char text[64];
  std::snprintf(text, sizeof text, "<%.1f seconds>", (seconds.front() + seconds.back()) / 2);
  return text;
}

}  // namespace

Result<TowerInputs> prepare_picture(const VisionConfig& config, const Picture& picture, const PictureOptions& options) {
  const uint64_t block = config.patch * config.merge;
  TRY(const std::vector<Picture> frames,
      resized(config, {&picture, 1}, limited(config.picture, options.max_rows, block * block)));
  return inputs_of(config, frames);
}

uint32_t most_rows(const VisionConfig& config, const PictureOptions& options) {
  const uint64_t block = config.patch * config.merge;
  return static_cast<uint32_t>(limited(config.picture, options.max_rows, block * block).most / (block * block));
}

Result<TowerInputs> prepare_frames(const VisionConfig& config, std::span<const Picture> frames,
                                   const FilmOptions& options) {
  const uint64_t block = config.patch * config.merge;
  const PixelRange film = limited(config.film, options.max_rows, block * block * config.frames);
  const uint64_t count = std::max<uint64_t>(options.frames, 1);
  const uint64_t of_film = (count + config.frames - 1) / config.frames * config.frames;
  const PixelRange frame{.least = (film.least + of_film - 1) / of_film,
                         .most = std::max(film.most / of_film, block * block)};
  TRY(const std::vector<Picture> made, resized(config, frames, limited(frame, kMaxTowerRows, block * block)));
  return inputs_of(config, made);
}

FilmRules film_rules(const VisionConfig& config) {
  return {.frames_per_step = config.frames, .choose = chosen_frames, .stamp = step_stamp};
}

}  // namespace sluice::qwen3_5
