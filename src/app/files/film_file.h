// Films in files. The programs ffprobe and ffmpeg read them, where they are installed: ffprobe counts the frames, and
// ffmpeg decodes those that a model looks at. Neither gets a shell, the terminal or a protocol beside files, and only
// container formats that hold no references to other files.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "media/picture.h"

namespace sluice {

struct FilmFacts {
  uint64_t frames = 0;
  double rate = 0;  // frames a second, on average
};

// Errors begin with the path. Fails for a film beyond the limits of seconds and pixels.
Result<FilmFacts> probe_film(const std::string& path);

// Decodes the frames with these numbers, ascending, and gives them to `take` one after another. An error of `take` ends
// the decoding.
Status read_frames(const std::string& path, std::span<const uint64_t> numbers,
                   const std::function<Status(Picture frame, uint64_t number)>& take);

}  // namespace sluice
