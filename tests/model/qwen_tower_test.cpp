// Qwen3.5's vision tower, and its rows in the text program, on the reference device and the CPU against transformers'
// numbers (models of shared/models; their golden.json says with which versions they were made). Exact arithmetic's bars
// of design.md: named intermediates 1e-4 in relative norm, logits 1e-3 or ten times the case's own difference between
// f32 and f64. The full set of reference models costs 3 s.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "media/decode/picture_file.h"
#include "tests/model/text_bench.h"
#include "tests/model/tower_bench.h"
#include "tests/reference_models.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

constexpr double kLogitBar = 1e-3, kNamedBar = 1e-4;
constexpr uint32_t kAxes = 3;
const std::vector<std::string> kNames = {"vision.embed", "vision.layer.0", "vision.layer.1", "vision.soft_tokens"};

// A golden file of a model, beside the model's own.
struct GoldenFolder {
  GoldenFolder(std::string model_folder, const std::string& file)
      : folder(std::move(model_folder)),
        model(unwrap(open_model(folder))),
        tensors(unwrap(open_safetensors(folder + file + ".safetensors"))) {
    const std::string text = unwrap(read_file(folder + file + ".json", 1u << 24));
    json = unwrap(parse_json(text, file));
  }
  const Json& golden_case(const std::string& name) const {
    const Json::Array& cases = json.find("cases")->as_array();
    const auto found = std::ranges::find(cases, name, [](const Json& one) { return one.find("name")->as_string(); });
    if (found == cases.end()) throw std::runtime_error("no case " + name);
    return *found;
  }
  // The tensor of a case, its elements as T.
  template <class T>
  std::vector<T> numbers(const Json& golden, const std::string& name) const {
    const StoredTensor* stored = tensors.find(golden.find("name")->as_string() + "/" + name);
    if (stored == nullptr) throw std::runtime_error("no tensor " + name);
    std::vector<T> values(stored->bytes.size() / sizeof(T));
    std::memcpy(values.data(), static_cast<const std::byte*>(stored->bytes.data()), values.size() * sizeof(T));
    return values;
  }

  std::string folder;
  Model model;
  Checkpoint tensors;
  Json json;
};

std::vector<Picture> pictures_of(const GoldenFolder& golden, const Json& golden_case) {
  std::vector<Picture> pictures;
  for (const Json& file : golden_case.find("files")->as_array()) {
    const std::string bytes = unwrap(read_file(golden.folder + file.as_string(), 1u << 24));
    pictures.push_back(unwrap(decode_picture(std::as_bytes(std::span(bytes)), file.as_string())));
  }
  return pictures;
}

// Every step of the tower that a case takes.
std::vector<TowerInputs> steps_of(const GoldenFolder& golden, const Json& golden_case) {
  const std::vector<Picture> pictures = pictures_of(golden, golden_case);
  std::vector<TowerInputs> steps;
  if (golden_case.find("kind")->as_string() == "video") {
    const uint32_t each = golden.model.film_rules().frames_per_step;
    for (size_t i = 0; i < pictures.size(); i += each)
      steps.push_back(unwrap(golden.model.prepare(std::span(pictures).subspan(i, each),
                                                  {.frames = static_cast<uint32_t>(pictures.size())})));
  } else {
    for (const Picture& picture : pictures) steps.push_back(unwrap(golden.model.prepare(picture)));
  }
  return steps;
}

std::unique_ptr<Device> cpu_device() {
  static ThreadPool pool(2);
  return make_cpu_device({.pool = &pool});
}
std::unique_ptr<Device> device_named(const std::string& name) {
  return name == "cpu" ? cpu_device() : make_reference_device();
}

// |found - expected| / |expected|
double relative_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_GT(norm, 0);
  return std::sqrt(difference / norm);
}

// The tower's intermediates, of all steps behind one another.
std::vector<std::vector<float>> play_steps(const Model& model, const std::vector<TowerInputs>& steps,
                                           const std::string& device) {
  std::vector<std::vector<float>> all(kNames.size());
  for (const TowerInputs& step : steps) {
    const NamedRows found = TowerBench(model, ProgramKind::vision, device_named(device)).play(step);
    for (size_t i = 0; i < kNames.size(); ++i) {
      const std::vector<float>& rows = found.at(kNames[i]);
      all[i].insert(all[i].end(), rows.begin(), rows.end());
    }
  }
  return all;
}

void expect_intermediates(const GoldenFolder& golden, const std::string& name) {
  const Json& golden_case = golden.golden_case(name);
  const std::vector<TowerInputs> steps = steps_of(golden, golden_case);
  for (const char* device : {"reference", "cpu"}) {
    const auto found = play_steps(golden.model, steps, device);
    for (size_t i = 0; i < kNames.size(); ++i) {
      const double off = relative_difference(found[i], golden.numbers<float>(golden_case, kNames[i]));
      EXPECT_LE(off, kNamedBar) << name << " " << kNames[i] << " on " << device;
      testing::Test::RecordProperty(cat(name, ".", kNames[i], ".", device), cat(off));
    }
  }
}

// Every fifth patch, as bytes in transformers' order (channel, frame, y, x), which is the checkpoint's.
void expect_pixels(const GoldenFolder& golden, const std::string& name) {
  const Json& golden_case = golden.golden_case(name);
  const std::vector<uint8_t> expected = golden.numbers<uint8_t>(golden_case, "pixel_values_every_5th");
  constexpr size_t kEvery = 5, kPatch = 3 * 2 * 16 * 16;
  std::vector<uint32_t> patches;
  for (const TowerInputs& step : steps_of(golden, golden_case))
    patches.insert(patches.end(), step.inputs[0].words.begin(), step.inputs[0].words.end());
  std::vector<uint8_t> found;
  for (size_t row = 0; row < patches.size() / kPatch; row += kEvery)
    for (size_t i = 0; i < kPatch; ++i)
      found.push_back(
          static_cast<uint8_t>(std::lround((std::bit_cast<float>(patches[row * kPatch + i]) + 1) * 127.5f)));
  EXPECT_EQ(found, expected) << name;
}

// The logits of a prompt with the tower's rows in it.
void expect_logits(const GoldenFolder& golden, const std::string& name, const std::string& device) {
  const Json& golden_case = golden.golden_case(name);
  const std::vector<TowerInputs> steps = steps_of(golden, golden_case);
  std::vector<int32_t> tokens, wanted;
  for (const Json& token : golden_case.find("input_ids")->as_array())
    tokens.push_back(static_cast<int32_t>(token.as_integer()));
  for (const Json& position : golden_case.find("positions")->as_array())
    wanted.push_back(static_cast<int32_t>(position.as_integer()));
  TextBench::Media media;
  media.rows = play_steps(golden.model, steps, device).back();
  int32_t row = 0;
  const TowerTokens& stand_in = golden.model.tower_tokens(ProgramKind::vision);
  for (const int32_t token : tokens)
    media.at.push_back(token == stand_in.row || token == stand_in.film_row ? row++ : -1);
  const std::vector<int32_t> by_axis = golden.numbers<int32_t>(golden_case, "position_ids");
  for (size_t i = 0; i < tokens.size(); ++i)
    for (uint32_t axis = 0; axis < kAxes; ++axis) media.coordinates.push_back(by_axis[axis * tokens.size() + i]);

  const auto length = static_cast<uint32_t>(tokens.size());
  TextBench bench(golden.model, unwrap(golden.model.record_text()), length, device_named(device));
  bench.use_media(media);
  const auto logits = bench.play(tokens, wanted, {find_value(bench.program(), "logits")})[0];
  const std::vector<float> expected = golden.numbers<float>(golden_case, "logits");
  ASSERT_EQ(logits.size(), expected.size());
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(logits[i]) - static_cast<double>(expected[i])));
  const double own = golden_case.find("float64_difference")->as_number();
  EXPECT_LE(largest, std::max(kLogitBar, 10 * own)) << name << " on " << device;
  testing::Test::RecordProperty(cat(name, ".logits.", device), cat(largest));
}

GoldenFolder with_experts() { return {SLUICE_TEST_DATA "/qwen3_5_moe/", "golden"}; }

class QwenTower : public testing::Test {
 protected:
  // Skips where the full set of reference models is not at hand.
  void SetUp() override {
    if (reference_models().empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set";
  }
  static std::string dense() { return reference_models() + "/qwen3_5/"; }
};

TEST(QwenTowerHere, GivesTheGoldensIntermediates) { expect_intermediates(with_experts(), "image"); }

TEST_F(QwenTower, GivesTheGoldensIntermediates) {
  expect_intermediates({dense(), "golden"}, "image");
  const GoldenFolder media(dense(), "golden_media");
  for (const char* name : {"image_two", "turns", "video"}) expect_intermediates(media, name);
}

TEST_F(QwenTower, TakesThePixelsOfTransformers) {
  const GoldenFolder media(dense(), "golden_media");
  for (const char* name : {"image_two", "turns"}) expect_pixels(media, name);
}

TEST_F(QwenTower, RowsInTheTextGiveTheGoldensLogits) {
  const GoldenFolder media(dense(), "golden_media");
  for (const char* name : {"image_two", "turns", "video"})
    for (const char* device : {"reference", "cpu"}) expect_logits(media, name, device);
}

// --- pictures

Picture grey(uint32_t width, uint32_t height) {
  return {.width = width, .height = height, .pixels = std::vector<uint8_t>(size_t{width} * height * 3, 128)};
}

TEST(QwenPictures, BecomeWholeBlocks) {
  const GoldenFolder golden = with_experts();
  const TowerInputs made = unwrap(golden.model.prepare(grey(100, 70)));
  EXPECT_EQ(made.rows, 6u);
  EXPECT_EQ(made.grid, (std::array<uint32_t, 3>{1, 2, 3}));
  EXPECT_EQ(unwrap(golden.model.prepare(grey(1, 1))).rows, 1u);
  EXPECT_EQ(unwrap(golden.model.prepare(grey(640, 480), {.max_rows = 70})).grid, (std::array<uint32_t, 3>{1, 7, 9}));
}

TEST(QwenPictures, ReadTheTableOfPositionsBetweenItsEntries) {
  const GoldenFolder golden = with_experts();
  const TowerInputs made = unwrap(golden.model.prepare(grey(64, 32)));  // 4 x 2 patches on a table of 8 x 8
  const auto input = [&](const char* name) { return std::ranges::find(made.inputs, name, &TowerInput::name)->words; };
  const std::vector<uint32_t> ids = input("position_ids"), shares = input("position_shares");
  // The second patch: column 1 of 4 is at 7 / 3 of the table, row 0 at 0.
  EXPECT_EQ(std::vector<uint32_t>(ids.begin() + 4, ids.begin() + 8), (std::vector<uint32_t>{2, 3, 10, 11}));
  EXPECT_NEAR(std::bit_cast<float>(shares[4]), 2.0 / 3, 1e-6);
  EXPECT_NEAR(std::bit_cast<float>(shares[5]), 1.0 / 3, 1e-6);
  EXPECT_EQ(std::bit_cast<float>(shares[6]), 0.0f);
  // The third patch is below the first.
  EXPECT_EQ(std::vector<uint32_t>(ids.begin() + 8, ids.begin() + 12), (std::vector<uint32_t>{56, 57, 56, 57}));
  const std::vector<uint32_t> coordinates = input("coordinates");
  EXPECT_EQ(coordinates, (std::vector<uint32_t>{0, 0, 0, 1, 1, 0, 1, 1, 0, 2, 0, 3, 1, 2, 1, 3}));
  EXPECT_EQ(input("last"), std::vector<uint32_t>(8, 7));
}

TEST(QwenPictures, ThatCannotBeOneAreRefused) {
  const GoldenFolder golden = with_experts();
  EXPECT_EQ(golden.model.prepare(grey(0, 0)).error().text, "picture: is 0 x 0: want pixels");
  EXPECT_EQ(golden.model.prepare(grey(201, 1)).error().text,
            "picture is 201 x 1: want no side longer than 200 times the other");
  const std::vector<Picture> frames = {grey(64, 32), grey(32, 32)};
  EXPECT_EQ(golden.model.prepare(frames, {.frames = 2}).error().text,
            "picture: is 32 x 32: want 64 x 32, as the film's first frame");
}

TEST(QwenPictures, FramesOfAFilmShareItsPixels) {
  const GoldenFolder golden = with_experts();
  const std::vector<Picture> frames(2, grey(2048, 2048));
  EXPECT_EQ(unwrap(golden.model.prepare(frames, {.frames = 2})).rows, 4096u);
  EXPECT_EQ(unwrap(golden.model.prepare(frames, {.frames = 64})).rows, 361u);  // 25,165,824 pixels in 64 frames
  EXPECT_EQ(unwrap(golden.model.prepare(frames, {.frames = 64, .max_rows = 3200})).rows, 100u);
  EXPECT_EQ(unwrap(golden.model.prepare({frames.data(), 1}, {.frames = 63})).rows, 361u);  // the last frame twice
}

}  // namespace
}  // namespace sluice
