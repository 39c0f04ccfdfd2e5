// How a camera was held, from a picture's EXIF data (a small TIFF file: JEITA CP-3451, tag 0x0112).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/picture.h"

namespace sluice {

// 1 to 8. 1, upright, where `exif` does not say or is damaged. `exif` begins with "II" or "MM"; "Exif\0\0" may stand
// before that.
uint32_t read_orientation(std::span<const std::byte> exif);

// The picture turned and mirrored, so that it stands upright.
Picture upright(Picture picture, uint32_t orientation);

}  // namespace sluice
