// A picture, sound or film as somebody gave it, before any model's preparation. Conversations keep it to be saved with
// its files and to be shown to another model. Nothing changes it, so messages share it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "media/picture.h"
#include "model/model.h"
#include "model/tower.h"

namespace sluice {

struct PreparedMedia;

enum class MediaKind : uint8_t { picture, sound, film };
const char* media_kind_name(MediaKind kind);  // "picture"

struct MediaSource {
  MediaKind kind{};
  std::string name = {};           // of the file, for people
  std::string path = {};           // of a film, which stays in its file; else ""
  std::string bytes = {};          // of the whole file of a picture or sound
  std::string digest = {};         // SHA-256 of the file, in hexadecimal digits
  PictureOptions options = {};     // that it was prepared with
  uint32_t width = 0, height = 0;  // pixels of a picture, or of a film's frames
  uint32_t frames = 0;             // of a film, those that are looked at
  double seconds = 0;              // of a sound or film
  Picture small = {};              // a picture, or a film's first frame, small enough for a terminal
};

// Decodes a source and prepares it for a model: one element, or all steps of a film. `source` needs its kind, its name,
// its digest, its options, and its bytes or path.
using MediaPreparer = std::function<Result<std::vector<PreparedMedia>>(const Model& model, MediaSource source)>;

}  // namespace sluice
