// Resized pictures and mel frames against those of transformers' processors (tests/data/media/make_media.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/checkpoint.h"
#include "media/decode/picture_file.h"
#include "media/decode/sound_file.h"
#include "media/mel.h"
#include "media/resize.h"
#include "media/sizes.h"
#include "tests/media/media_files.h"
#include "tests/reference_models.h"

namespace sluice {
namespace {

const StoredTensor& found(const Checkpoint& tensors, const std::string& name) {
  const StoredTensor* const tensor = tensors.find(name);
  if (tensor == nullptr) throw std::runtime_error(name + ": not there");
  return *tensor;
}

const StoredTensor& golden(const std::string& name) {
  static const Checkpoint tensors =
      unwrap(open_safetensors(std::string(SLUICE_TEST_DATA) + "/media/golden.safetensors"));
  return found(tensors, name);
}

Picture decoded(const std::string& file) { return unwrap(decode_picture(test_file(file), file)); }

// Patch `index` of squares of `side` pixels in raster order, as rows of pixels.
std::vector<uint8_t> patch(const Picture& picture, uint32_t side, size_t index) {
  const size_t across = picture.width / side;
  const size_t x = index % across * side, y = index / across * side;
  std::vector<uint8_t> out;
  for (size_t row = y; row < y + side; ++row) {
    const auto begin = picture.pixels.begin() + static_cast<ptrdiff_t>((row * picture.width + x) * 3);
    out.insert(out.end(), begin, begin + static_cast<ptrdiff_t>(side * 3));
  }
  return out;
}

// Every `step`-th patch is a row of the golden; rows behind the last patch are zeros.
int largest_difference(const Picture& picture, uint32_t side, size_t step, const StoredTensor& tensor) {
  const size_t row_bytes = size_t{side} * side * 3;
  const size_t patches = size_t{picture.width / side} * (picture.height / side);
  const auto* want = reinterpret_cast<const uint8_t*>(static_cast<const std::byte*>(tensor.bytes.data()));
  int largest = 0;
  for (size_t row = 0; row * row_bytes < tensor.bytes.size(); ++row) {
    std::vector<uint8_t> got(row_bytes);
    if (row * step < patches) got = patch(picture, side, row * step);
    for (size_t i = 0; i < row_bytes; ++i)
      largest = std::max(largest, std::abs(int{got[i]} - int{want[row * row_bytes + i]}));
  }
  return largest;
}

using Resize = Picture(const Picture&, uint32_t, uint32_t);

Picture for_gemma(const Picture& picture, Resize* resize) {
  const PictureSize size = size_for_rows({picture.width, picture.height}, 48, 70);
  return resize(picture, size.width, size.height);
}

TEST(MediaGoldens, GemmaPicturesArePillows) {
  const auto difference = [](const std::string& file, size_t step, const std::string& name) {
    return largest_difference(for_gemma(decoded(file), resize_bicubic), 16, step, golden(name));
  };
  EXPECT_EQ(difference("gemma4/picture4.png", 27, "gemma4/image4/pixel_values_every_9th"), 0);
  EXPECT_EQ(difference("gemma4_towers/picture2.png", 36, "gemma4_towers/image_two/pixel_values_every_9th.1"), 0);
  EXPECT_EQ(difference("gemma4_towers/picture3.jpg", 36, "gemma4_towers/image_jpeg/pixel_values_every_9th.0"), 0);
}

TEST(MediaGoldens, UnifiedPicturesAreTorchvisions) {
  const auto difference = [](const std::string& file, const std::string& name) {
    return largest_difference(for_gemma(decoded(file), resize_bicubic_torch), 48, 21, golden(name));
  };
  EXPECT_EQ(difference("gemma4_unified/picture2.png", "gemma4_unified/image_two/pixel_values_every_7th.1"), 0);
  EXPECT_EQ(difference("gemma4_unified/picture3.jpg", "gemma4_unified/image_jpeg/pixel_values_every_7th.0"), 0);
}

// Qwen's rows are [channel][frame][y][x] of 16 x 16 pixels; the four patches of a block follow one another.
TEST(MediaGoldens, QwenPicturesArePillows) {
  const Picture source = decoded("qwen3_5/media1.png");
  const PictureSize size = unwrap(size_for_pixels({source.width, source.height}, 32, {1024, 1048576}));
  const Picture picture = resize_bicubic(source, size.width, size.height);
  const StoredTensor& tensor = golden("qwen3_5/image_two/pixel_values_every_5th");
  const auto* want = reinterpret_cast<const uint8_t*>(static_cast<const std::byte*>(tensor.bytes.data()));
  const size_t blocks = size.width / 32, patches = size_t{size.width / 16} * (size.height / 16);
  for (size_t row = 0; row * 5 < patches; ++row) {
    const size_t block = row * 5 / 4, part = row * 5 % 4;
    const size_t x = block % blocks * 2 + part % 2, y = block / blocks * 2 + part / 2;
    const std::vector<uint8_t> got = patch(picture, 16, y * (size.width / 16) + x);
    for (size_t channel = 0; channel < 3; ++channel)
      for (size_t frame = 0; frame < 2; ++frame)
        for (size_t i = 0; i < 256; ++i)
          ASSERT_EQ(got[i * 3 + channel], want[row * 1536 + (channel * 2 + frame) * 256 + i]) << row << " " << i;
  }
}

// Every `step`-th frame is a row of the golden. A clip that was padded to a longer one has more rows, of zeros.
float largest_difference(const MelFrames& mel, size_t step, const StoredTensor& tensor) {
  std::vector<float> want(tensor.bytes.size() / 4);
  std::memcpy(want.data(), static_cast<const std::byte*>(tensor.bytes.data()), tensor.bytes.size());
  float largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t at = i / kMelBands * step * kMelBands + i % kMelBands;
    largest = std::max(largest, std::abs((at < mel.values.size() ? mel.values[at] : 0) - want[i]));
  }
  return largest;
}

constexpr float kMelBar = 1e-4f;  // found: 4.0e-5; the extractor computes in f32

TEST(MediaGoldens, MelFramesAreTheExtractors) {
  const MelFrames mel = log_mel(unwrap(decode_sound(test_file("gemma4/sound2.wav"), "sound2.wav")));
  EXPECT_EQ(mel.frames, 169u);
  EXPECT_EQ(mel.valid, 168u);
  ASSERT_EQ(mel.values.size(), size_t{169} * kMelBands);
  EXPECT_LE(largest_difference(mel, 12, golden("gemma4/audio2/audio.mel")), kMelBar);
}

// Every picture and clip of a golden whose pixels or frames it keeps.
void expect_media(const std::string& folder, const std::string& name, Resize* resize, uint32_t side, size_t step) {
  const Checkpoint tensors = unwrap(open_safetensors(cat(folder, "/", name, ".safetensors")));
  const Json json = unwrap(parse_json(read_text(cat(folder, "/", name, ".json")), name));
  size_t compared = 0;
  for (const Json& golden_case : json.find("cases")->as_array()) {
    size_t pictures = 0, sounds = 0;
    const Json* const files = golden_case.find("files");
    if (files == nullptr || golden_case.find("kind")->as_string() == "video") continue;
    for (const Json& file : files->as_array()) {
      const bool sound = file.as_string().ends_with(".wav");
      const std::string prefix = sound ? "audio.mel" : cat("pixel_values_every_", side == 16 ? 9 : 7, "th");
      const Json& names = *golden_case.find("tensors");
      const Json* key = names.find(cat(prefix, ".", sound ? sounds++ : pictures++));
      if (key == nullptr) key = names.find(prefix);
      if (key == nullptr) continue;
      SCOPED_TRACE(cat(folder, "/", file.as_string()));
      const std::vector<std::byte> bytes = bytes_of(read_text(cat(folder, "/", file.as_string())));
      const StoredTensor& tensor = found(tensors, key->as_string());
      if (sound)
        EXPECT_LE(largest_difference(log_mel(unwrap(decode_sound(bytes, "sound"))), 1, tensor), kMelBar);
      else
        EXPECT_EQ(largest_difference(for_gemma(unwrap(decode_picture(bytes, "picture")), resize), side, step, tensor),
                  0);
      ++compared;
    }
  }
  EXPECT_GT(compared, 0u) << folder;
}

TEST(MediaGoldens, AllOfTheReferenceModels) {
  const std::string models = reference_models();
  if (models.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: some media goldens did not run";
  expect_media(models + "/gemma4", "golden", resize_bicubic, 16, 9);
  expect_media(models + "/gemma4", "golden_audio", resize_bicubic, 16, 9);
  expect_media(models + "/gemma4_towers", "golden", resize_bicubic, 16, 9);
  expect_media(models + "/gemma4_unified", "golden", resize_bicubic_torch, 48, 7);
}

}  // namespace
}  // namespace sluice
