// A picture's orientation, from its EXIF data (a small TIFF file: JEITA CP-3451, tag 0x0112).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/picture.h"

namespace sluice {

// 1 to 8; 1 is upright. Returns 1 if `exif` has no such tag or is damaged. `exif` begins with "II" or "MM", or with
// "Exif\0\0" before that.
uint32_t read_orientation(std::span<const std::byte> exif);

// The picture turned and mirrored, so that it stands upright.
Picture upright(Picture picture, uint32_t orientation);

}  // namespace sluice
