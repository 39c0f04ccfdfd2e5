// Cuts a picture into patches, in the order that tower.h describes: blocks in raster order, and within a block its
// patches in raster order.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "media/picture.h"

namespace sluice {

// The order of the numbers in a patch: by pixel and then colour, or by colour and then pixel.
enum class PixelOrder : uint8_t { pixels_first, colours_first };

struct PatchPlace {
  uint32_t x = 0, y = 0;  // counted in patches
};

// The places of `columns` x `rows` patches, ordered by blocks of `block` x `block`. Both must be multiples of `block`.
std::vector<PatchPlace> patch_places(uint32_t columns, uint32_t rows, uint32_t block);

using ByteValues = std::array<float, 256>;  // the value of each byte
// byte / 255 * factor + term, for each byte.
ByteValues byte_values(float factor, float term);

// The patches with side `patch` at these places, one after another, as the bits of f32 values.
std::vector<uint32_t> cut_patches(const Picture& picture, std::span<const PatchPlace> places, uint32_t patch,
                                  PixelOrder order, const ByteValues& values);

}  // namespace sluice
