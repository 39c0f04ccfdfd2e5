// What Gemma 4's towers have in common: where a checkpoint says something of them, and how a picture is resized.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/tower.h"
#include "model/weight_table.h"

namespace sluice::gemma4 {

// What keys about a tower ("vision", "audio") begin with in GGUF: llama.cpp's files of towers, or Ollama's of whole
// models, where `key` is one that every tower has.
std::string tower_keys(const Checkpoint& checkpoint, const std::string& tower, const std::string& key);

// config.json's object about a tower; null where there is none.
const Json* tower_section(const Checkpoint& checkpoint, const char* section);

inline constexpr uint32_t kPixelColours = 3;

// Tokens around "image" or "audio".
TowerTokens tower_tokens(const Checkpoint& checkpoint, const std::string& medium);

// The most rows of a picture, by the files of the image processor or, in GGUF, by the key of its pixels; else
// `otherwise`. A row of the text is a square with that side in pixels.
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

// Keys of mmproj files that every vision tower has. `hidden`: of the text.
void add_picture_keys(std::vector<GgufMetadata::Entry>& keys, const char* projector, uint32_t hidden,
                      uint32_t max_pixels);
uint32_t picture_pixels(uint32_t max_rows, uint32_t side);  // of a picture of max_rows rows

// A patch's columns in GGUF are colour by colour, in Hugging Face's files pixel by pixel.
HeadOrder colours_behind(uint32_t side);

// The picture resized for blocks of side `block` and at most `max_rows` of them, by Pillow's rule or torchvision's. One
// sentence where it has no pixels, or more blocks are asked for than a tower takes.
enum class Resizing : uint8_t { pillow, torchvision };
Result<Picture> resized_picture(const Picture& picture, uint32_t block, uint32_t max_rows, Resizing resizing);

// Fails for a sound without samples, of another rate than the towers', or longer than they were made for.
inline constexpr uint32_t kSoundRate = 16000, kSoundSeconds = 30;
Status check_sound(const Sound& sound);

}  // namespace sluice::gemma4
