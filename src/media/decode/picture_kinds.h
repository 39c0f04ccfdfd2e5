// The decoders behind decode_picture(), one a kind of file. Each is called with a file that begins as its kind does.
#pragma once

#include "media/decode/picture_file.h"

namespace sluice {

struct PictureFile {
  std::span<const std::byte> bytes;
  const std::string& name;
  const PictureLimits& limits;

  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(bytes.data()); }
};

Result<Picture> decode_png(const PictureFile& file);
Result<Picture> decode_jpeg(const PictureFile& file);
Result<Picture> decode_webp(const PictureFile& file);
Result<Picture> decode_gif(const PictureFile& file);
Result<Picture> decode_bmp(const PictureFile& file);

// A black picture of that size, if the limits allow one. Called before the decoder allocates by the size.
Result<Picture> empty_picture(const PictureFile& file, uint64_t width, uint64_t height);

// The error about a file that a decoder cannot read to the end.
Error damaged(const PictureFile& file, std::string_view kind, std::string_view found);

}  // namespace sluice
