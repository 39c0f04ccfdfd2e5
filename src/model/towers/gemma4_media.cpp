#include "model/towers/gemma4_media.h"

#include <algorithm>

#include "base/limits.h"
#include "base/text.h"
#include "media/resize.h"
#include "media/sizes.h"

namespace sluice::gemma4 {
namespace {

constexpr const char* kPicture = "image";  // the word in tokens and configurations
constexpr const char* kMaxPixels = "clip.vision.image_max_pixels";
constexpr uint32_t kImageSize = 224;  // llama.cpp requires the key but does not use its value
constexpr const char* kFilmToken = "<|video|>";

int32_t token_of_config(const Json& config, const std::string& name) {
  const Json* id = config.find(name);
  const bool known = id != nullptr && id->is_integer() && id->as_integer() >= 0 && id->as_integer() < kMaxVocabulary;
  return known ? static_cast<int32_t>(id->as_integer()) : -1;
}

TowerTokens tokens_of_gguf(const Checkpoint& checkpoint, const std::string& medium) {
  TowerTokens found;
  const GgufValue* value = checkpoint.key("tokenizer.ggml.tokens");
  const auto* tokens = value == nullptr ? nullptr : std::get_if<GgufArray<std::string>>(value);
  if (tokens == nullptr) return found;
  const bool is_picture = medium == kPicture;
  for (size_t id = 0; id < tokens->size(); ++id) {
    const auto is = [&, &text = (*tokens)[id]](const char* before, const char* behind) {
      return text == cat(before, medium, behind);
    };
    if (is("<|", ">")) found.begin = static_cast<int32_t>(id);
    if (is("<|", "|>")) found.row = static_cast<int32_t>(id);
    if (is("<", "|>")) found.end = static_cast<int32_t>(id);
    if (is_picture && (*tokens)[id] == kFilmToken) found.film_row = static_cast<int32_t>(id);
  }
  return found;
}

// A part of the file about all processors; null where there is none.
const Json* processor_part(const Checkpoint& checkpoint, const char* part) {
  const Json* all = checkpoint.document("processor_config.json");
  return all == nullptr ? nullptr : all->find(part);
}

// Where `object` has a number from 1 to `most` by that name, `number` becomes it.
void read_number(const Json* object, const char* name, uint32_t most, uint32_t& number) {
  const Json* found = object == nullptr ? nullptr : object->find(name);
  if (found == nullptr || !found->is_integer()) return;
  if (found->as_integer() > 0 && found->as_integer() <= most) number = static_cast<uint32_t>(found->as_integer());
}

// As torch.arange gives them: products in double precision, kept in single, then cut off.
std::vector<uint64_t> evenly(uint64_t frames, uint64_t count) {
  count = std::min(count, frames);
  const double step = count == 0 ? 0 : static_cast<double>(frames) / static_cast<double>(count);
  std::vector<uint64_t> chosen;
  for (uint64_t i = 0; i < count; ++i) {
    const auto at = static_cast<uint64_t>(static_cast<float>(static_cast<double>(i) * step));
    chosen.push_back(std::min(at, frames - 1));
  }
  return chosen;
}

std::string frame_stamp(std::span<const double> seconds, bool is_first) {
  const auto whole = static_cast<uint64_t>(seconds.front());
  const auto two_digits = [](uint64_t number) { return cat(number < 10 ? "0" : "", number); };
  return cat(is_first ? "" : " ", two_digits(whole / 60), ":", two_digits(whole % 60), " ");
}

const Json* max_soft_tokens(const Checkpoint& checkpoint) {
  const Json* of_pictures = processor_part(checkpoint, "image_processor");
  if (of_pictures == nullptr) of_pictures = checkpoint.document("preprocessor_config.json");
  return of_pictures == nullptr ? nullptr : of_pictures->find("max_soft_tokens");
}

}  // namespace

std::string tower_keys(const Checkpoint& checkpoint, const std::string& tower, const std::string& key) {
  const std::string own = cat("clip.", tower);
  return checkpoint.key(cat(own, ".", key)) != nullptr ? own : cat("gemma4.", tower);
}

const Json* tower_section(const Checkpoint& checkpoint, const char* section) {
  const Json* config = checkpoint.document("config.json");
  const Json* found = config == nullptr ? nullptr : config->find(section);
  return found != nullptr && found->is_object() ? found : nullptr;
}

TowerTokens tower_tokens(const Checkpoint& checkpoint, const std::string& medium) {
  const Json* config = checkpoint.document("config.json");
  if (config == nullptr) return tokens_of_gguf(checkpoint, medium);
  const std::string letter = medium.substr(0, 1), end = cat("eo", letter, "_token_");
  const int32_t end_id = token_of_config(*config, end + "id");
  return {.begin = token_of_config(*config, cat("bo", letter, "_token_id")),
          .row = token_of_config(*config, cat(medium, "_token_id")),
          .end = end_id >= 0 ? end_id : token_of_config(*config, end + "index"),
          .film_row = medium == kPicture ? token_of_config(*config, "video_token_id") : -1};
}

uint32_t picture_rows(const Checkpoint& checkpoint, uint32_t otherwise, uint32_t side) {
  if (const GgufValue* key = checkpoint.key(kMaxPixels)) {
    const auto* pixels = std::get_if<uint32_t>(key);
    const uint32_t fitting = pixels == nullptr ? 0 : static_cast<uint32_t>(*pixels / (uint64_t{side} * side));
    return fitting > 0 && fitting <= kMaxTowerRows ? fitting : otherwise;
  }
  const Json* rows = max_soft_tokens(checkpoint);
  const bool known =
      rows != nullptr && rows->is_integer() && rows->as_integer() > 0 && rows->as_integer() <= kMaxTowerRows;
  return known ? static_cast<uint32_t>(rows->as_integer()) : otherwise;
}

FilmNumbers film_numbers(const Checkpoint& checkpoint) {
  FilmNumbers numbers;
  const Json* of_films = processor_part(checkpoint, "video_processor");
  read_number(of_films, "max_soft_tokens", kMaxTowerRows, numbers.frame_rows);
  read_number(of_films, "num_frames", kMaxFilmFrames, numbers.frames);
  return numbers;
}

FilmRules film_rules(const FilmNumbers& numbers) {
  const auto choose = [count = numbers.frames](uint64_t frames, double) { return evenly(frames, count); };
  return {.frames_per_step = 1, .choose = choose, .stamp = frame_stamp};
}

uint32_t frame_rows(const FilmNumbers& numbers, const FilmOptions& options) {
  if (options.max_rows == 0) return numbers.frame_rows;
  return std::max(options.max_rows / std::max(options.frames, 1u), 1u);
}

uint32_t picture_pixels(uint32_t max_rows, uint32_t side) {
  return static_cast<uint32_t>(std::min(uint64_t{max_rows} * side * side, uint64_t{UINT32_MAX}));
}

void add_picture_keys(std::vector<GgufMetadata::Entry>& keys, const char* projector, uint32_t hidden,
                      uint32_t max_pixels) {
  keys.insert(keys.end(), {{"clip.vision.projector_type", std::string(projector)},
                           {"clip.vision.projection_dim", hidden},
                           {"clip.vision.image_size", kImageSize},
                           {kMaxPixels, max_pixels},
                           {"clip.vision.image_mean", GgufArray<float>{0, 0, 0}},
                           {"clip.vision.image_std", GgufArray<float>{1, 1, 1}}});
}

uint32_t most_rows(const PictureOptions& options, uint32_t usual) {
  return options.max_rows == 0 ? usual : std::min(options.max_rows, kMaxTowerRows);
}

HeadOrder colours_behind(uint32_t side) { return {.groups = side * side, .per_group = kPixelColours, .columns = true}; }

Result<Picture> resized_picture(const Picture& picture, uint32_t block, uint32_t max_rows, Resizing resizing) {
  if (picture.width == 0 || picture.height == 0)
    return error(ErrorKind::invalid, "picture: is ", picture.width, " x ", picture.height, ": want pixels");
  if (max_rows > kMaxTowerRows)
    return error(ErrorKind::invalid, "picture: rows are ", max_rows, ": want at most ", kMaxTowerRows);
  const PictureSize size = size_for_rows({.width = picture.width, .height = picture.height}, block, max_rows);
  if (size.width == picture.width && size.height == picture.height) return picture;
  return resizing == Resizing::pillow ? resize_bicubic(picture, size.width, size.height)
                                      : resize_bicubic_torch(picture, size.width, size.height);
}

Status check_sound(const Sound& sound) {
  if (sound.rate != kSoundRate)
    return error(ErrorKind::invalid, "sound: has ", sound.rate, " samples a second: want ", kSoundRate);
  if (sound.samples.empty()) return error(ErrorKind::invalid, "sound: is empty: want samples");
  if (sound.samples.size() > kMostSamples)
    return error(ErrorKind::invalid, "sound: has ", sound.samples.size(), " samples: want at most ", kSoundSeconds,
                 " s, which are ", kMostSamples);
  return {};
}

}  // namespace sluice::gemma4
