#include "app/cli/inline_picture.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/base64.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr size_t kColours = 3;

std::string_view bytes_of(const Picture& picture) {
  return {reinterpret_cast<const char*>(picture.pixels.data()), picture.pixels.size()};
}

// --- PNG

void append_be32(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

uint32_t crc32(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

uint32_t adler32(std::string_view bytes) {
  uint32_t a = 1, b = 0;
  for (const char c : bytes) {
    a = (a + static_cast<uint8_t>(c)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

std::string png_chunk(std::string_view type, std::string_view data) {
  std::string chunk;
  append_be32(chunk, static_cast<uint32_t>(data.size()));
  const std::string body = cat(type, data);
  chunk += body;
  append_be32(chunk, crc32(body));
  return chunk;
}

// A zlib stream of blocks that are not compressed.
std::string stored_zlib(std::string_view bytes) {
  constexpr size_t kMostStored = 65535;
  std::string out = "\x78\x01";
  for (size_t at = 0; at < bytes.size();) {
    const std::string_view block = bytes.substr(at, kMostStored);
    at += block.size();
    const auto size = static_cast<uint32_t>(block.size());
    out += static_cast<char>(at == bytes.size());
    for (const uint32_t word : {size, ~size}) {
      out += static_cast<char>(word & 0xff);
      out += static_cast<char>(word >> 8 & 0xff);
    }
    out += block;
  }
  append_be32(out, adler32(bytes));
  return out;
}

// --- Sixel

constexpr std::array<uint32_t, kColours> kLevels = {6, 7, 6};
constexpr uint32_t kBandRows = 6, kPaletteSize = kLevels[0] * kLevels[1] * kLevels[2];

uint32_t level_of(uint8_t value, uint32_t levels) { return (value * (levels - 1) + 127) / 255; }

uint32_t palette_index(const uint8_t* pixel) {
  uint32_t index = 0;
  for (size_t colour = 0; colour < kColours; ++colour)
    index = index * kLevels[colour] + level_of(pixel[colour], kLevels[colour]);
  return index;
}

// In percent, as Sixel has colours.
std::string palette_entry(uint32_t index) {
  std::array<uint32_t, kColours> percent{};
  uint32_t rest = index;
  for (size_t colour = kColours; colour-- > 0; rest /= kLevels[colour])
    percent[colour] = (rest % kLevels[colour] * 100 + (kLevels[colour] - 1) / 2) / (kLevels[colour] - 1);
  return cat("#", index, ";2;", percent[0], ";", percent[1], ";", percent[2]);
}

void append_run(std::string& out, char c, size_t count) {
  if (count > 3)
    out += cat("!", count, c);
  else
    out.append(count, c);
}

// One colour of a band: each character says which of six rows have it in a column.
std::string sixel_line(const std::vector<uint32_t>& indices, uint32_t width, uint32_t colour) {
  std::string line;
  char last = 0;
  size_t count = 0;
  for (uint32_t x = 0; x < width; ++x) {
    uint32_t rows = 0;
    for (uint32_t y = 0; size_t{y} * width < indices.size(); ++y)
      if (indices[size_t{y} * width + x] == colour) rows |= 1u << y;
    const char c = static_cast<char>('?' + rows);
    if (c != last) {
      append_run(line, last, count);
      count = 0;
    }
    last = c;
    ++count;
  }
  if (last != '?') append_run(line, last, count);  // empty columns at the end need no characters
  return line;
}

std::string sixel_band(const Picture& picture, uint32_t first_row) {
  const uint32_t rows = std::min(kBandRows, picture.height - first_row);
  std::vector<uint32_t> indices;
  std::vector<bool> used(kPaletteSize);
  for (size_t i = 0; i < size_t{rows} * picture.width; ++i) {
    const size_t pixel = size_t{first_row} * picture.width + i;
    indices.push_back(palette_index(picture.pixels.data() + pixel * kColours));
    used[indices.back()] = true;
  }
  std::string band;
  for (uint32_t colour = 0; colour < kPaletteSize; ++colour)
    if (used[colour]) band += cat("#", colour, sixel_line(indices, picture.width, colour), "$");
  return band + "-";
}

}  // namespace

std::string png_file(const Picture& picture) {
  std::string header;
  append_be32(header, picture.width);
  append_be32(header, picture.height);
  header += std::string("\x08\x02\0\0\0", 5);  // 8 bits of red, green and blue, not interlaced
  std::string lines;
  const size_t line_bytes = size_t{picture.width} * kColours;
  for (size_t y = 0; y < picture.height; ++y)
    lines += cat(std::string(1, '\0'), bytes_of(picture).substr(y * line_bytes, line_bytes));
  return cat("\x89PNG\r\n\x1a\n", png_chunk("IHDR", header), png_chunk("IDAT", stored_zlib(lines)),
             png_chunk("IEND", ""));
}

std::string kitty_picture(const Picture& picture) {
  constexpr size_t kPiece = 4096;
  const std::string data = encode_base64(bytes_of(picture));
  std::string out;
  for (size_t at = 0; at < data.size(); at += kPiece) {
    const bool more = at + kPiece < data.size();
    const std::string what = at == 0 ? cat("a=T,q=2,f=24,s=", picture.width, ",v=", picture.height, ",") : "q=2,";
    out += cat("\x1b_G", what, "m=", more ? 1 : 0, ";", std::string_view(data).substr(at, kPiece), "\x1b\\");
  }
  return out;
}

std::string iterm2_picture(const Picture& picture) {
  const std::string file = png_file(picture);
  return cat("\x1b]1337;File=inline=1;size=", file.size(), ";width=", picture.width, "px;height=", picture.height,
             "px:", encode_base64(file), "\a");
}

std::string sixel_picture(const Picture& picture) {
  std::string out = cat("\x1bP0;1q\"1;1;", picture.width, ";", picture.height);
  for (uint32_t index = 0; index < kPaletteSize; ++index) out += palette_entry(index);
  for (uint32_t row = 0; row < picture.height; row += kBandRows) out += sixel_band(picture, row);
  return out + "\x1b\\";
}

std::string inline_picture(const Picture& picture, InlinePictures way) {
  if (picture.pixels.empty()) return "";
  switch (way) {
    case InlinePictures::none: return "";
    case InlinePictures::kitty: return kitty_picture(picture);
    case InlinePictures::iterm2: return iterm2_picture(picture);
    case InlinePictures::sixel: break;
  }
  return sixel_picture(picture);
}

std::optional<InlinePictures> inline_pictures_of(const TerminalVariables& variables) {
  const auto& [term, program, is_kitty, is_multiplexed] = variables;
  if (term.empty() || term == "dumb" || term == "linux") return InlinePictures::none;
  if (is_multiplexed || starts_with(term, "tmux") || starts_with(term, "screen")) return InlinePictures::none;
  if (is_kitty || term == "xterm-kitty" || term == "xterm-ghostty" || program == "ghostty")
    return InlinePictures::kitty;
  for (const std::string_view known : {"iTerm.app", "WezTerm", "mintty"})
    if (program == known) return InlinePictures::iterm2;
  if (starts_with(term, "foot") || starts_with(term, "mlterm")) return InlinePictures::sixel;
  if (program == "Apple_Terminal") return InlinePictures::none;
  return std::nullopt;
}

bool answers_sixel(std::string_view answer) {
  const size_t begin = answer.find("\x1b[?");
  const size_t end = answer.find('c', begin == std::string_view::npos ? 0 : begin);
  if (begin == std::string_view::npos || end == std::string_view::npos) return false;
  const std::vector<std::string> attributes = split(answer.substr(begin + 3, end - begin - 3), ';');
  // The first number is the terminal's class.
  return std::find(attributes.begin() + (attributes.empty() ? 0 : 1), attributes.end(), "4") != attributes.end();
}

}  // namespace sluice
