// The first picture of a GIF by giflib, at its place on the screen that the file describes.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "media/decode/picture_kinds.h"

namespace sluice {
namespace {

struct Source {
  const PictureFile& file;
  size_t read = 0;
  bool ended = false;  // giflib asked for bytes beyond the end
};

// giflib takes fewer bytes than it asked for as an error.
int on_read(GifFileType* gif, GifByteType* out, int size) {
  auto* source = static_cast<Source*>(gif->UserData);
  const size_t left = source->file.bytes.size() - source->read;
  const size_t taken = std::min(static_cast<size_t>(size), left);
  std::memcpy(out, source->file.data() + source->read, taken);
  source->read += taken;
  source->ended = taken < static_cast<size_t>(size);
  return static_cast<int>(taken);
}

struct Close {
  void operator()(GifFileType* gif) const {
    int ignored = 0;
    DGifCloseFile(gif, &ignored);
  }
};
using Gif = std::unique_ptr<GifFileType, Close>;

Error gif_error(const Source& source, int code) {
  const char* const text = GifErrorString(code);
  return damaged(source.file, "GIF", source.ended ? "ends early" : text == nullptr ? "unknown damage" : text);
}

// The colour that extensions before the picture declare transparent.
Result<std::optional<int>> read_transparency(const Source& source, GifFileType* gif) {
  int code = 0;
  GifByteType* block = nullptr;
  std::optional<int> transparent;
  if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return gif_error(source, gif->Error);
  while (block != nullptr) {
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK &&
        control.TransparentColor != NO_TRANSPARENT_COLOR)
      transparent = control.TransparentColor;
    if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return gif_error(source, gif->Error);
  }
  return transparent;
}

// Without a palette colours are shades of gray. A colour beyond the palette is black.
class Palette {
 public:
  explicit Palette(const GifFileType& gif) : map_(gif.Image.ColorMap != nullptr ? gif.Image.ColorMap : gif.SColorMap) {}

  void write(int colour, uint8_t* out) const {
    const auto gray = static_cast<uint8_t>(map_ == nullptr ? colour : 0);
    GifColorType found{gray, gray, gray};
    if (map_ != nullptr && colour < map_->ColorCount) found = map_->Colors[colour];
    out[0] = found.Red;
    out[1] = found.Green;
    out[2] = found.Blue;
  }

 private:
  const ColorMapObject* map_;
};

// The rows of the picture in the order of the file. The rows of an interlaced picture come in four passes.
std::vector<uint32_t> row_order(uint32_t height, bool interlaced) {
  constexpr uint32_t passes[][2] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  std::vector<uint32_t> rows;
  for (const auto& [first, step] : passes)
    for (uint32_t row = interlaced ? first : 0; row < height && rows.size() < height; row += interlaced ? step : 1)
      rows.push_back(row);
  return rows;
}

// The parts of the screen that the picture does not cover get the transparent colour, or else the first colour.
Result<Picture> read_picture(const Source& source, GifFileType* gif, std::optional<int> transparent) {
  const PictureFile& file = source.file;
  if (DGifGetImageDesc(gif) == GIF_ERROR) return gif_error(source, gif->Error);
  const GifImageDesc& part = gif->Image;
  if (part.Width <= 0 || part.Height <= 0) return damaged(file, "GIF", "a frame without pixels");
  TRY(Picture picture, empty_picture(file, static_cast<uint64_t>(std::max(gif->SWidth, part.Left + part.Width)),
                                     static_cast<uint64_t>(std::max(gif->SHeight, part.Top + part.Height))));
  const Palette palette(*gif);
  for (size_t at = 0; at < picture.pixels.size(); at += 3)
    palette.write(transparent.value_or(0), picture.pixels.data() + at);
  std::vector<GifPixelType> line(static_cast<size_t>(part.Width));
  for (const uint32_t row : row_order(static_cast<uint32_t>(part.Height), part.Interlace)) {
    if (DGifGetLine(gif, line.data(), part.Width) == GIF_ERROR) return gif_error(source, gif->Error);
    const size_t y = static_cast<size_t>(part.Top) + row;
    uint8_t* out = picture.pixels.data() + (y * picture.width + static_cast<size_t>(part.Left)) * 3;
    for (const GifPixelType colour : line) {
      palette.write(colour, out);
      out += 3;
    }
  }
  return picture;
}

}  // namespace

Result<Picture> decode_gif(const PictureFile& file) {
  Source source{file};
  int code = 0;
  const Gif gif(DGifOpen(&source, on_read, &code));
  if (!gif) return gif_error(source, code);
  std::optional<int> transparent;
  for (;;) {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif.get(), &type) == GIF_ERROR) return gif_error(source, gif->Error);
    if (type == IMAGE_DESC_RECORD_TYPE) return read_picture(source, gif.get(), transparent);
    if (type != EXTENSION_RECORD_TYPE) return damaged(file, "GIF", "no frame");
    TRY(const auto found, read_transparency(source, gif.get()));
    if (found) transparent = found;
  }
}

}  // namespace sluice
