// The size that a picture is resized to: the rules of the processors of Gemma 4 and Qwen. Both keep the aspect ratio as
// well as whole blocks allow. A block is the square of pixels that becomes one row of the text; `block` is its side.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace sluice {

struct PictureSize {
  uint32_t width = 0;
  uint32_t height = 0;
  bool operator==(const PictureSize&) const = default;
};

// Gemma 4: the picture is scaled to the area of `max_rows` blocks, and each side is rounded down to whole blocks. If
// one side would be less than a block, it becomes one block, and the long side follows from the ratio of the sides.
PictureSize size_for_rows(PictureSize picture, uint32_t block, uint32_t max_rows);

struct PixelRange {
  uint64_t least = 0;
  uint64_t most = 0;
};

// Qwen: each side is rounded to whole blocks. If the picture is then outside the range of pixels, both sides are scaled
// to the edge of the range and rounded inwards. Fails if one side is more than 200 times the other.
Result<PictureSize> size_for_pixels(PictureSize picture, uint32_t block, PixelRange pixels);

}  // namespace sluice
