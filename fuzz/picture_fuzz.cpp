// Pictures of any bytes: what is decoded is whole, and both size rules and the resizer take it.
#include "base/check.h"
#include "media/decode/picture_file.h"
#include "media/resize.h"
#include "media/sizes.h"

namespace {

constexpr uint32_t kBlock = 16, kMaxRows = 4;

void resize(const sluice::Picture& picture) {
  const sluice::PictureSize size = sluice::size_for_rows({picture.width, picture.height}, kBlock, kMaxRows);
  CHECK(uint64_t{size.width} * size.height <= uint64_t{kBlock} * kBlock * kMaxRows);
  const sluice::Picture resized = sluice::resize_bicubic(picture, size.width, size.height);
  CHECK(resized.pixels.size() == size_t{size.width} * size.height * 3);
  const auto other = sluice::size_for_pixels({picture.width, picture.height}, kBlock, {1024, 4096});
  if (other) CHECK(other->width % kBlock == 0 && other->height % kBlock == 0 && other->width > 0 && other->height > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto picture = sluice::decode_picture(bytes, "file", {.pixels = 1 << 18});
  if (!picture) return 0;
  CHECK(picture->width > 0 && picture->height > 0 && picture->width <= (1 << 18) / picture->height);
  CHECK(picture->pixels.size() == size_t{picture->width} * picture->height * 3);
  resize(*picture);
  return 0;
}
