// decode_picture(): the bytes of a PNG, JPEG, WebP, GIF or BMP file as a picture. The kind follows from the content,
// never from the name. Pixels are those of Pillow's `ImageOps.exif_transpose(image).convert("RGB")`: transparency is
// dropped, colours are not managed, 16-bit numbers keep their upper byte, an animation gives its first frame. Gray PNGs
// of 16 bits keep their upper byte, too; Pillow turns all of their numbers above 255 white.
//
// A file is hostile: its size is held to the limits before anything is allocated, and what a decoder needs grows with
// the limits alone. The PNG, JPEG, WebP and GIF decoders are Debian's libraries; BMP and EXIF are read by our own code.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"
#include "media/picture.h"

namespace sluice {

// What decoding takes of memory for a pixel, at most, with the picture itself.
inline constexpr uint64_t kPictureDecodeBytes = 15;

struct PictureLimits {
  uint64_t bytes = kMaxMediaBytes;
  uint32_t side = kMaxPictureSide;
  uint64_t pixels = kMaxPicturePixels;
  // Called with the bytes that decoding takes at most, once the size is known and before they are allocated. An error
  // ends the decoding. Empty: all the limits allow has room.
  std::function<Status(uint64_t bytes)> room = {};
};

// Whether a file that begins so is of a kind that is decoded.
bool is_picture(std::string_view first);

// Every error begins with `name`.
Result<Picture> decode_picture(std::span<const std::byte> bytes, const std::string& name,
                               const PictureLimits& limits = {});

}  // namespace sluice
