#include "model/towers/patches.h"

#include <bit>

#include "base/check.h"

namespace sluice {
namespace {

constexpr uint32_t kColours = 3;
constexpr float kOneOf255 = 1.0f / 255.0f;  // image processors multiply by it

}  // namespace

std::vector<PatchPlace> patch_places(uint32_t columns, uint32_t rows, uint32_t block) {
  CHECK(block > 0 && columns % block == 0 && rows % block == 0);
  std::vector<PatchPlace> places;
  places.reserve(size_t{columns} * rows);
  for (uint32_t top = 0; top < rows; top += block)
    for (uint32_t left = 0; left < columns; left += block)
      for (uint32_t y = 0; y < block; ++y)
        for (uint32_t x = 0; x < block; ++x) places.push_back({.x = left + x, .y = top + y});
  return places;
}

ByteValues byte_values(float factor, float term) {
  ByteValues values{};
  for (size_t byte = 0; byte < values.size(); ++byte)
    values[byte] = static_cast<float>(byte) * kOneOf255 * factor + term;
  return values;
}

std::vector<uint32_t> cut_patches(const Picture& picture, std::span<const PatchPlace> places, uint32_t patch,
                                  PixelOrder order, const ByteValues& values) {
  const size_t area = size_t{patch} * patch;
  const bool interleaved = order == PixelOrder::pixels_first;
  const size_t pixel_step = interleaved ? kColours : 1, colour_step = interleaved ? 1 : area;
  std::vector<uint32_t> words(places.size() * area * kColours);
  uint32_t* to = words.data();
  for (const PatchPlace& place : places) {
    for (size_t pixel = 0; pixel < area; ++pixel) {
      const size_t x = place.x * size_t{patch} + pixel % patch, y = place.y * size_t{patch} + pixel / patch;
      const uint8_t* const from = picture.pixels.data() + (y * picture.width + x) * kColours;
      for (size_t colour = 0; colour < kColours; ++colour)
        to[pixel * pixel_step + colour * colour_step] = std::bit_cast<uint32_t>(values[from[colour]]);
    }
    to += area * kColours;
  }
  return words;
}

}  // namespace sluice
