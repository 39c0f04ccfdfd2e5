// Shared by Gemma 4's towers: finding their configuration and tokens in a checkpoint, and resizing a picture.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/tower.h"
#include "model/weight_table.h"

namespace sluice::gemma4 {

// The beginning of a tower's GGUF keys, for "vision" or "audio". It differs between llama.cpp's mmproj files and
// Ollama's files, so the one is taken under which the file has `key`, which every tower has.
std::string tower_keys(const Checkpoint& checkpoint, const std::string& tower, const std::string& key);

// The object of config.json about a tower; null if there is none.
const Json* tower_section(const Checkpoint& checkpoint, const char* section);

inline constexpr uint32_t kPixelColours = 3;

// The tokens around the rows of an "image" or of "audio".
TowerTokens tower_tokens(const Checkpoint& checkpoint, const std::string& medium);

// The maximum number of rows for a picture, from the image processor's files or from the GGUF key for pixels; without
// either, `otherwise`. One row stands for a square of `side` x `side` pixels.
uint32_t picture_rows(const Checkpoint& checkpoint, uint32_t otherwise, uint32_t side);

// What the video processor's file says: the most rows of a frame, and how many frames of a film are looked at.
struct FilmNumbers {
  uint32_t frame_rows = 70;
  uint32_t frames = 32;
};
FilmNumbers film_numbers(const Checkpoint& checkpoint);
// Frames evenly from the first on. Each is a step of the tower with its time before it: "00:01 ".
FilmRules film_rules(const FilmNumbers& numbers);
// A frame as a picture: the most rows of one.
uint32_t frame_rows(const FilmNumbers& numbers, const FilmOptions& options);

// Adds the keys that mmproj files have for every vision tower. `hidden` is the width of the text's rows.
void add_picture_keys(std::vector<GgufMetadata::Entry>& keys, const char* projector, uint32_t hidden,
                      uint32_t max_pixels);
uint32_t picture_pixels(uint32_t max_rows, uint32_t side);  // pixels of a picture with max_rows rows

// The columns of the patch embedding are ordered by colour in GGUF and by pixel in Hugging Face's files.
HeadOrder colours_behind(uint32_t side);

// The maximum number of rows for a picture with these options. `usual`: without an option.
uint32_t most_rows(const PictureOptions& options, uint32_t usual);

// Resizes a picture to at most `max_rows` blocks of side `block`, by Pillow's or torchvision's rule. Fails with one
// sentence when the picture has no pixels or max_rows is more than a tower takes.
enum class Resizing : uint8_t { pillow, torchvision };
Result<Picture> resized_picture(const Picture& picture, uint32_t block, uint32_t max_rows, Resizing resizing);

// Fails when a sound has no samples, has another rate than kSoundRate, or is longer than kSoundSeconds.
inline constexpr uint32_t kSoundRate = 16000, kSoundSeconds = 30, kMostSamples = kSoundRate * kSoundSeconds;
Status check_sound(const Sound& sound);

}  // namespace sluice::gemma4
