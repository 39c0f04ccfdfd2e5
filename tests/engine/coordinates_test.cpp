// Coordinates of a history with pictures, held against position_ids that transformers 5.17.0 computed for the golden
// cases of Qwen3.5 (image_two here; all of them where the full set of reference models is at hand).
#include "engine/coordinates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "tests/reference_models.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

std::vector<int32_t> coordinates(const std::vector<GridRun>& runs, uint32_t begin, uint32_t end) {
  std::vector<int32_t> filled((end - begin) * kCoordinates);
  fill_coordinates(runs, begin, end, filled);
  return filled;
}

// Of one axis.
std::vector<int32_t> column(const std::vector<int32_t>& filled, size_t axis) {
  std::vector<int32_t> one;
  for (size_t i = axis; i < filled.size(); i += kCoordinates) one.push_back(filled[i]);
  return one;
}

const std::vector<GridRun> kTwo = {{.at = 5, .rows = 6, .grid = {1, 2, 3}}, {.at = 20, .rows = 12, .grid = {1, 6, 2}}};

TEST(Coordinates, OfTextAreItsPositions) {
  EXPECT_EQ(coordinates({}, 3, 5), (std::vector<int32_t>{3, 3, 3, 4, 4, 4}));
  EXPECT_TRUE(coordinates({}, 7, 7).empty());
}

TEST(Coordinates, CountTimeRowsAndColumnsOfPictures) {
  const std::vector<int32_t> filled = coordinates(kTwo, 4, 34);
  EXPECT_EQ(column(filled, 0), (std::vector<int32_t>{4,  5,  5,  5,  5,  5,  5,  8,  9,  10, 11, 12, 13, 14, 15,
                                                     16, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 23, 24}));
  EXPECT_EQ(column(filled, 1), (std::vector<int32_t>{4,  5,  5,  5,  6,  6,  6,  8,  9,  10, 11, 12, 13, 14, 15,
                                                     16, 17, 17, 18, 18, 19, 19, 20, 20, 21, 21, 22, 22, 23, 24}));
  EXPECT_EQ(column(filled, 2), (std::vector<int32_t>{4,  5,  6,  7,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                                     16, 17, 18, 17, 18, 17, 18, 17, 18, 17, 18, 17, 18, 23, 24}));
}

TEST(Coordinates, AreTheSameWhereverAPartBegins) {
  const std::vector<int32_t> whole = coordinates(kTwo, 0, 40);
  for (uint32_t begin = 0; begin <= 40; ++begin)
    for (uint32_t end = begin; end <= 40; ++end)
      EXPECT_TRUE(std::ranges::equal(coordinates(kTwo, begin, end),
                                     std::span(whole).subspan(begin * kCoordinates, (end - begin) * kCoordinates)))
          << begin << " to " << end;
}

TEST(Coordinates, OfAPictureThatWasCutDependOnWhatIsThere) {
  std::vector<GridRun> cut = kTwo;
  cut[1].rows = 5;
  EXPECT_EQ(coordinates(cut, 0, 25), coordinates(kTwo, 0, 25));
  EXPECT_EQ(coordinates(cut, 25, 26), (std::vector<int32_t>{23, 23, 23}));  // text behind a picture that was cut
}

TEST(Coordinates, CountTheRowsOfAGridByTime) {
  const std::vector<int32_t> filled = coordinates({{.at = 1, .rows = 8, .grid = {2, 2, 2}}}, 0, 10);
  EXPECT_EQ(column(filled, 0), (std::vector<int32_t>{0, 1, 1, 1, 1, 2, 2, 2, 2, 3}));
  EXPECT_EQ(column(filled, 1), (std::vector<int32_t>{0, 1, 1, 2, 2, 1, 1, 2, 2, 3}));
  EXPECT_EQ(column(filled, 2), (std::vector<int32_t>{0, 1, 2, 1, 2, 1, 2, 1, 2, 3}));
}

TEST(Coordinates, FollowFromTheHistory) {
  const auto show = [](History& history, uint8_t name, uint32_t rows, std::array<uint16_t, kCoordinates> grid) {
    for (uint32_t row = 0; row < rows; ++row)
      history.push_back({.media = {.content = {name}, .row = row, .shape = {.grid = grid}}});
  };
  const auto describe = [](const std::vector<GridRun>& runs) {
    std::string text;
    for (const GridRun& run : runs)
      text += cat(run.at, "+", run.rows, " ", run.grid[0], "x", run.grid[1], "x", run.grid[2], "; ");
    return text;
  };
  History history(3);
  show(history, 1, 6, {1, 2, 3});
  show(history, 1, 6, {1, 2, 3});  // the same picture once more
  show(history, 2, 4, {0, 0, 0});  // a sound, say
  history.resize(history.size() + 2);
  show(history, 3, 1, {1, 2, 2});  // cut behind its first row
  GridRuns whole;
  whole.extend(history);
  EXPECT_EQ(describe(whole.list()), "3+6 1x2x3; 9+6 1x2x3; 21+1 1x2x2; ");
  // Wherever it was cut, and however it grew to be so long.
  GridRuns grown;
  for (size_t length = 0; length <= history.size(); ++length) {
    grown.extend(std::span(history).first(length));
    GridRuns cut = whole, again = whole, alone;
    cut.truncate(length);
    alone.extend(std::span(history).first(length));
    EXPECT_EQ(describe(cut.list()), describe(alone.list())) << length;
    EXPECT_EQ(describe(grown.list()), describe(alone.list())) << length;
    EXPECT_EQ(cut.length(), length);
    cut.extend(history);
    EXPECT_EQ(describe(cut.list()), describe(whole.list())) << length;
    History other(history.begin(), history.begin() + static_cast<std::ptrdiff_t>(length));
    show(other, 4, 6, {1, 2, 3});
    again.truncate(length);
    again.extend(other);
    alone.extend(other);
    EXPECT_EQ(describe(again.list()), describe(alone.list())) << length;
  }
}

// --- the goldens

constexpr uint32_t kMerge = 2;  // patches of a side of a row's block

std::vector<uint32_t> numbers(const Json& list) {
  std::vector<uint32_t> all;
  for (const Json& one : list.as_array()) all.push_back(static_cast<uint32_t>(one.as_integer()));
  return all;
}

// Grids in rows of the text; each time of a film is a grid of its own.
std::vector<std::array<uint32_t, kCoordinates>> grids_of(const Json& golden) {
  std::vector<std::array<uint32_t, kCoordinates>> grids;
  for (const char* member : {"image_grid_thw", "video_grid_thw"}) {
    const Json* list = golden.find(member);
    if (list == nullptr) continue;
    for (const Json& one : list->as_array()) {
      const std::vector<uint32_t> grid = numbers(one);
      grids.insert(grids.end(), grid[0], {1, grid[1] / kMerge, grid[2] / kMerge});
    }
  }
  return grids;
}

std::vector<GridRun> runs_of(const Json& golden, const Json& config) {
  const int64_t image = config.find("image_token_id")->as_integer(),
                video = config.find("video_token_id")->as_integer();
  const std::vector<uint32_t> tokens = numbers(*golden.find("input_ids"));
  const std::vector<std::array<uint32_t, kCoordinates>> grids = grids_of(golden);
  std::vector<GridRun> runs;
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] != image && tokens[i] != video) continue;
    const auto& grid = grids[runs.size()];
    runs.push_back({.at = i, .rows = grid[0] * grid[1] * grid[2], .grid = grid});
    i += runs.back().rows - 1;
  }
  EXPECT_EQ(runs.size(), grids.size());
  return runs;
}

TEST(Coordinates, AreThoseOfTheGoldens) {
  if (reference_models().empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set";
  const std::string model = reference_models() + "/qwen3_5/";
  const auto json = [&](const char* name) {
    const std::string text = unwrap(read_file(model + name, 1u << 24));
    return unwrap(parse_json(text, name));
  };
  const Json config = json("config.json"), golden = json("golden_media.json");
  const Checkpoint tensors = unwrap(open_safetensors(model + "golden_media.safetensors"));
  ASSERT_EQ(golden.find("cases")->as_array().size(), 3u);
  for (const Json& one : golden.find("cases")->as_array()) {
    const std::string name = one.find("name")->as_string();
    const auto length = static_cast<uint32_t>(one.find("input_ids")->as_array().size());
    const StoredTensor* stored = tensors.find(name + "/position_ids");
    ASSERT_NE(stored, nullptr) << name;
    std::vector<int32_t> expected(length * kCoordinates);
    ASSERT_EQ(stored->bytes.size(), expected.size() * 4);
    std::memcpy(expected.data(), static_cast<const std::byte*>(stored->bytes.data()), expected.size() * 4);
    const std::vector<int32_t> filled = coordinates(runs_of(one, config), 0, length + 1);
    for (size_t axis = 0; axis < kCoordinates; ++axis) {
      const std::vector<int32_t> found = column(filled, axis);
      EXPECT_TRUE(std::equal(found.begin(), found.end() - 1, expected.begin() + axis * length)) << name << " " << axis;
      EXPECT_EQ(found.back(), length + one.find("rope_delta")->as_integer()) << name;  // the first token generated
    }
  }
}

}  // namespace
}  // namespace sluice
