// A BMP reader without a library: 1, 4, 8, 16, 24 and 32 bits, plain or with masks. Source: Microsoft's pages on
// BITMAPFILEHEADER, BITMAPCOREHEADER and BITMAPINFOHEADER.
//
//   "BM" | u32 bytes, u32 0, u32 offset of the pixels | u32 bytes of the header
//   header of 12 bytes:  u16 width, height, planes, bits | colours of 3 bytes
//   header of 40 bytes and more:  i32 width, height (negative: from the top) | u16 planes, bits | u32 packing
//     | u32 bytes of the pixels | i32 x 2 pixels a metre | u32 colours | u32 important ones
//     | masks of red, green, blue (of packing 3 and 6) | colours of 4 bytes
//   Rows are padded to 4 bytes and go from the bottom to the top. Colours are blue, green, red.
#include <algorithm>
#include <array>
#include <bit>

#include "base/checked.h"
#include "media/decode/picture_kinds.h"

namespace sluice {
namespace {

constexpr uint64_t kFileHeaderBytes = 14;
constexpr uint32_t kCoreHeaderBytes = 12;
constexpr uint32_t kInfoHeaderBytes = 40;
constexpr uint32_t kPlain = 0, kMasks = 3, kMasksWithAlpha = 6;  // packing

struct Header {
  uint32_t bytes = 0;
  int64_t width = 0, height = 0;
  uint32_t bits = 0;
  uint32_t packing = kPlain;
  uint32_t colours = 0;
  uint64_t pixels_at = 0;
};

struct Field {
  uint32_t mask = 0;

  uint8_t read(uint32_t pixel) const {
    if (mask == 0) return 0;
    const int shift = std::countr_zero(mask);
    return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / (mask >> shift));
  }
};

class Reader {
 public:
  explicit Reader(const PictureFile& file) : file_(file) {}

  // 0 beyond the end. A caller that needs the bytes must call `holds` first.
  uint32_t number(uint64_t at, uint32_t size) const {
    uint32_t value = 0;
    for (uint32_t i = size; i-- > 0;) value = value << 8 | (at + i < file_.bytes.size() ? file_.data()[at + i] : 0u);
    return value;
  }
  bool holds(CheckedSize end) const { return end.fits(file_.bytes.size()); }

 private:
  const PictureFile& file_;
};

Result<Header> read_header(const PictureFile& file, const Reader& reader) {
  const auto at = [](uint64_t offset) { return kFileHeaderBytes + offset; };
  Header header;
  header.pixels_at = reader.number(10, 4);
  header.bytes = reader.number(at(0), 4);
  if (!reader.holds(CheckedSize(at(0)) + header.bytes) || !reader.holds(at(4)))
    return damaged(file, "BMP", "ends early");
  if (header.bytes == kCoreHeaderBytes) {
    header.width = reader.number(at(4), 2);
    header.height = reader.number(at(6), 2);
    header.bits = reader.number(at(10), 2);
    return header;
  }
  if (header.bytes < kInfoHeaderBytes) return damaged(file, "BMP", cat("header of ", header.bytes, " bytes"));
  header.width = static_cast<int32_t>(reader.number(at(4), 4));
  header.height = static_cast<int32_t>(reader.number(at(8), 4));
  header.bits = reader.number(at(14), 2);
  header.packing = reader.number(at(16), 4);
  header.colours = reader.number(at(32), 4);
  return header;
}

Status check_kind(const PictureFile& file, const Header& header) {
  const auto unsupported = [&](std::string_view what, uint32_t value, std::string_view wanted) {
    return error(ErrorKind::unsupported, file.name, ": BMP of ", what, " ", value, ": want ", wanted);
  };
  constexpr std::array bits{1u, 4u, 8u, 16u, 24u, 32u};
  if (std::ranges::find(bits, header.bits) == bits.end())
    return unsupported("bits", header.bits, "1, 4, 8, 16, 24 or 32");
  const bool masks = header.packing == kMasks || header.packing == kMasksWithAlpha;
  if (header.packing != kPlain && !(masks && (header.bits == 16 || header.bits == 32)))
    return unsupported("compression", header.packing, "0, or 3 with 16 or 32 bits");
  return {};
}

// Red, green and blue in a pixel of 16 bits or more.
std::array<Field, 3> read_fields(const Reader& reader, const Header& header) {
  if (header.packing != kPlain) {
    const uint64_t at = kFileHeaderBytes + kInfoHeaderBytes;
    return {Field{reader.number(at, 4)}, Field{reader.number(at + 4, 4)}, Field{reader.number(at + 8, 4)}};
  }
  if (header.bits == 16) return {Field{0x7c00}, Field{0x3e0}, Field{0x1f}};
  return {Field{0xff0000}, Field{0xff00}, Field{0xff}};
}

// Missing colours are black.
std::vector<std::array<uint8_t, 3>> read_palette(const Reader& reader, const Header& header) {
  std::vector<std::array<uint8_t, 3>> palette(size_t{1} << header.bits);
  const uint32_t bytes = header.bytes == kCoreHeaderBytes ? 3 : 4;
  const size_t count = header.colours == 0 ? palette.size() : std::min<size_t>(header.colours, palette.size());
  for (size_t i = 0; i < count; ++i) {
    const uint32_t colour = reader.number(kFileHeaderBytes + header.bytes + i * bytes, 3);
    palette[i] = {static_cast<uint8_t>(colour >> 16), static_cast<uint8_t>(colour >> 8), static_cast<uint8_t>(colour)};
  }
  return palette;
}

class Pixels {
 public:
  Pixels(const Reader& reader, const Header& header) : reader_(reader), bits_(header.bits) {
    if (bits_ <= 8)
      palette_ = read_palette(reader, header);
    else
      fields_ = read_fields(reader, header);
  }

  // Pixel x of the row that begins at byte `row`.
  std::array<uint8_t, 3> read(uint64_t row, uint64_t x) const {
    if (bits_ > 8) {
      const uint32_t pixel = reader_.number(row + x * (bits_ / 8), bits_ / 8);
      return {fields_[0].read(pixel), fields_[1].read(pixel), fields_[2].read(pixel)};
    }
    const uint64_t bit = x * bits_;
    const uint32_t byte = reader_.number(row + bit / 8, 1);
    return palette_[byte >> (8 - bits_ - bit % 8) & ((1u << bits_) - 1)];
  }

 private:
  const Reader& reader_;
  uint32_t bits_;
  std::vector<std::array<uint8_t, 3>> palette_;
  std::array<Field, 3> fields_;
};

}  // namespace

Result<Picture> decode_bmp(const PictureFile& file) {
  const Reader reader(file);
  TRY(const Header header, read_header(file, reader));
  TRY_STATUS(check_kind(file, header));
  const bool from_top = header.height < 0;
  if (header.width < 0) return damaged(file, "BMP", cat("width ", header.width));
  TRY(Picture picture, empty_picture(file, static_cast<uint64_t>(header.width),
                                     static_cast<uint64_t>(from_top ? -header.height : header.height)));
  const uint64_t row_bytes = (uint64_t{picture.width} * header.bits + 31) / 32 * 4;
  if (!reader.holds(CheckedSize(row_bytes) * picture.height + header.pixels_at))
    return damaged(file, "BMP", "ends early");
  const Pixels pixels(reader, header);
  uint8_t* out = picture.pixels.data();
  for (uint32_t y = 0; y < picture.height; ++y) {
    const uint64_t row = header.pixels_at + row_bytes * (from_top ? y : picture.height - 1 - y);
    for (uint32_t x = 0; x < picture.width; ++x) {
      const std::array<uint8_t, 3> pixel = pixels.read(row, x);
      out = std::copy(pixel.begin(), pixel.end(), out);
    }
  }
  return picture;
}

}  // namespace sluice
