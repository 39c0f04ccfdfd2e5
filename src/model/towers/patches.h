// A picture cut into patches, in the order of tower.h: the patches of a block follow one another in raster order, and
// so do the blocks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "media/picture.h"

namespace sluice {

// Numbers of a patch: by pixel and then colour, or by colour and then pixel.
enum class PixelOrder : uint8_t { pixels_first, colours_first };

struct PatchPlace {
  uint32_t x = 0, y = 0;  // counted in patches
};

// Of `columns` x `rows` patches in blocks of `block` x `block`, of which they are whole multiples.
std::vector<PatchPlace> patch_places(uint32_t columns, uint32_t rows, uint32_t block);

using ByteValues = std::array<float, 256>;  // of the bytes 0 to 255
// byte / 255 * factor + term
ByteValues byte_values(float factor, float term);

// The patches of side `patch` at these places, one after another: bits of f32.
std::vector<uint32_t> cut_patches(const Picture& picture, std::span<const PatchPlace> places, uint32_t patch,
                                  PixelOrder order, const ByteValues& values);

}  // namespace sluice
