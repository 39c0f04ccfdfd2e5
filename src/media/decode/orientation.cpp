#include "media/decode/orientation.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

//   "II" or "MM", u16 42 | u32 offset of the first directory
//   directory: u16 count | count x (u16 tag, u16 type, u32 count, u32 value or its offset) | u32 next directory
constexpr uint64_t kEntryBytes = 12;
constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShort = 3;  // the type of a u16, which stands in the first bytes of the value

// Numbers of a TIFF file; none beyond its end.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes)
      : bytes_(bytes), little_(!bytes.empty() && bytes[0] == std::byte{'I'}) {}

  std::optional<uint32_t> number(uint64_t at, uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return std::nullopt;
    uint32_t value = 0;
    for (uint64_t i = 0; i < size; ++i)
      value = value << 8 | std::to_integer<uint32_t>(bytes_[at + (little_ ? size - 1 - i : i)]);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool little_;
};

std::optional<uint32_t> find_orientation(const Tiff& tiff) {
  const auto directory = tiff.number(4, 4);
  if (!directory) return std::nullopt;
  const auto count = tiff.number(*directory, 2);
  for (uint64_t i = 0; count && i < *count; ++i) {
    const uint64_t entry = uint64_t{*directory} + 2 + i * kEntryBytes;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    if (tiff.number(entry + 2, 2) != kShort) return std::nullopt;
    return tiff.number(entry + 8, 2);
  }
  return std::nullopt;
}

}  // namespace

uint32_t read_orientation(std::span<const std::byte> exif) {
  constexpr std::string_view prefix("Exif\0\0", 6);
  const std::string_view text(reinterpret_cast<const char*>(exif.data()), exif.size());
  if (text.starts_with(prefix)) return read_orientation(exif.subspan(prefix.size()));
  const Tiff tiff(exif);
  if (!text.starts_with("II") && !text.starts_with("MM")) return 1;
  if (tiff.number(2, 2) != 42u) return 1;
  const uint32_t found = find_orientation(tiff).value_or(1);
  return found >= 1 && found <= 8 ? found : 1;
}

Picture upright(Picture picture, uint32_t orientation) {
  if (orientation == 1) return picture;
  // Where pixel (x, y) of the upright picture lies in the stored one: sides swapped or not, then mirrored.
  const bool swapped = orientation >= 5;
  const bool mirror_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirror_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Picture out{picture.width, picture.height, std::vector<uint8_t>(picture.pixels.size())};
  if (swapped) std::swap(out.width, out.height);
  uint8_t* to = out.pixels.data();
  for (uint32_t y = 0; y < out.height; ++y)
    for (uint32_t x = 0; x < out.width; ++x) {
      uint32_t from_x = swapped ? y : x;
      uint32_t from_y = swapped ? x : y;
      if (mirror_x) from_x = picture.width - 1 - from_x;
      if (mirror_y) from_y = picture.height - 1 - from_y;
      const uint8_t* from = picture.pixels.data() + (size_t{from_y} * picture.width + from_x) * 3;
      to = std::copy_n(from, 3, to);
    }
  return out;
}

}  // namespace sluice
