#include "media/decode/picture_file.h"

#include <algorithm>

#include "media/decode/picture_kinds.h"

namespace sluice {
namespace {

struct Kind {
  std::string_view begin;
  std::string_view at_8;  // what follows behind eight bytes
  Result<Picture> (*decode)(const PictureFile&);
};

constexpr Kind kKinds[] = {
    {"\x89PNG\r\n\x1a\n", "", decode_png},
    {"\xff\xd8\xff", "", decode_jpeg},
    {"RIFF", "WEBP", decode_webp},
    {"GIF87a", "", decode_gif},
    {"GIF89a", "", decode_gif},
    {"BM", "", decode_bmp},
};

bool is(const Kind& kind, std::string_view text) {
  return starts_with(text, kind.begin) &&
         (kind.at_8.empty() || text.substr(std::min<size_t>(8, text.size())).starts_with(kind.at_8));
}

std::string hexadecimal(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char byte : bytes) {
    if (!out.empty()) out += ' ';
    out += digits[static_cast<uint8_t>(byte) >> 4];
    out += digits[static_cast<uint8_t>(byte) & 15];
  }
  return out;
}

}  // namespace

bool is_picture(std::string_view first) {
  return std::ranges::any_of(kKinds, [first](const Kind& kind) { return is(kind, first); });
}

Result<Picture> decode_picture(std::span<const std::byte> bytes, const std::string& name, const PictureLimits& limits) {
  constexpr char wanted[] = ": want a PNG, JPEG, WebP, GIF or BMP picture";
  if (bytes.empty()) return error(ErrorKind::corrupt, name, ": empty file", wanted);
  if (bytes.size() > limits.bytes)
    return error(ErrorKind::unsupported, name, ": ", bytes.size(), " bytes: want at most ", limits.bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Kind& kind : kKinds)
    if (is(kind, text)) return kind.decode({bytes, name, limits});
  return error(ErrorKind::unsupported, name, ": begins with bytes ", hexadecimal(text.substr(0, 8)), wanted);
}

Result<Picture> empty_picture(const PictureFile& file, uint64_t width, uint64_t height) {
  const auto size = [&] { return cat(file.name, ": picture of ", width, " x ", height, " pixels"); };
  if (width == 0 || height == 0) return error(ErrorKind::corrupt, size(), ": want at least one");
  const PictureLimits& limits = file.limits;
  if (width > limits.side || height > limits.side)
    return error(ErrorKind::unsupported, size(), ": want sides of at most ", limits.side);
  if (width * height > limits.pixels)
    return error(ErrorKind::unsupported, size(), ": want at most ", limits.pixels, " pixels");
  if (limits.room) TRY_STATUS(limits.room(width * height * kPictureDecodeBytes));
  return Picture{static_cast<uint32_t>(width), static_cast<uint32_t>(height), std::vector<uint8_t>(width * height * 3)};
}

Error damaged(const PictureFile& file, std::string_view kind, std::string_view found) {
  return error(ErrorKind::corrupt, file.name, ": ", printable(found), ": want an undamaged ", kind, " picture");
}

}  // namespace sluice
