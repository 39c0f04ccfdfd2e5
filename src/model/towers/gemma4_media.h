// What Gemma 4's towers have in common: where a checkpoint says something of them, and how a picture is resized.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/tower.h"

namespace sluice::gemma4 {

// What keys about a tower ("vision", "audio") begin with in GGUF: llama.cpp's files of towers, or Ollama's of whole
// models, where `key` is one that every tower has.
std::string tower_keys(const Checkpoint& checkpoint, const std::string& tower, const std::string& key);

// config.json's object about a tower; null where there is none.
const Json* tower_section(const Checkpoint& checkpoint, const char* section);

// Tokens around "image" or "audio".
TowerTokens tower_tokens(const Checkpoint& checkpoint, const std::string& medium);

// Rows that a picture may have, as the files of the image processor say; else `otherwise`.
uint32_t picture_rows(const Checkpoint& checkpoint, uint32_t otherwise);

// The picture resized for blocks of side `block` and at most `max_rows` of them, by Pillow's rule or torchvision's. One
// sentence where it has no pixels, or more blocks are asked for than a tower takes.
enum class Resizing : uint8_t { pillow, torchvision };
Result<Picture> resized_picture(const Picture& picture, uint32_t block, uint32_t max_rows, Resizing resizing);

// Fails for a sound without samples, of another rate than the towers', or longer than they were made for.
inline constexpr uint32_t kSoundRate = 16000, kSoundSeconds = 30;
Status check_sound(const Sound& sound);

}  // namespace sluice::gemma4
