#include "media/sizes.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr uint64_t kMostRatio = 200;

// Ties to even, as Python rounds.
uint64_t rounded_blocks(uint64_t side, uint64_t block) {
  const uint64_t whole = side / block;
  const uint64_t twice = side % block * 2;
  return whole + (twice > block || (twice == block && whole % 2 == 1) ? 1 : 0);
}

PictureSize of_blocks(double width, double height, uint32_t block) {
  const auto side = [&](double blocks) { return std::max(static_cast<uint32_t>(blocks), 1u) * block; };
  return {side(width), side(height)};
}

}  // namespace

PictureSize size_for_rows(PictureSize picture, uint32_t block, uint32_t max_rows) {
  CHECK(picture.width > 0 && picture.height > 0 && block > 0 && max_rows > 0);
  const double area = static_cast<double>(picture.width) * picture.height;
  const double factor = std::sqrt(static_cast<double>(max_rows) * block * block / area);
  const auto blocks = [&](uint32_t side) { return static_cast<uint32_t>(factor * side / block); };
  uint32_t width = blocks(picture.width);
  uint32_t height = blocks(picture.height);
  if (height == 0)
    width = std::min(picture.width / picture.height, max_rows);
  else if (width == 0)
    height = std::min(picture.height / picture.width, max_rows);
  return of_blocks(width, height, block);
}

Result<PictureSize> size_for_pixels(PictureSize picture, uint32_t block, PixelRange pixels) {
  CHECK(picture.width > 0 && picture.height > 0 && block > 0 && pixels.most > 0);
  const auto [short_side, long_side] = std::minmax(picture.width, picture.height);
  if (long_side > kMostRatio * short_side)
    return error(ErrorKind::unsupported, "picture is ", picture.width, " x ", picture.height,
                 ": want no side longer than ", kMostRatio, " times the other");
  const uint64_t width = rounded_blocks(picture.width, block);
  const uint64_t height = rounded_blocks(picture.height, block);
  const uint64_t rounded = width * height * block * block;
  const double area = static_cast<double>(picture.width) * picture.height;
  if (rounded > pixels.most) {
    const double shrink = std::sqrt(area / static_cast<double>(pixels.most));
    return of_blocks(std::floor(picture.width / shrink / block), std::floor(picture.height / shrink / block), block);
  }
  if (rounded < pixels.least) {
    const double grow = std::sqrt(static_cast<double>(pixels.least) / area);
    return of_blocks(std::ceil(picture.width * grow / block), std::ceil(picture.height * grow / block), block);
  }
  return of_blocks(static_cast<double>(width), static_cast<double>(height), block);
}

}  // namespace sluice
