// peer_resized PICTURE OUT.ppm KIND BLOCK ROWS, or PICTURE OUT.ppm qwen BLOCK LEAST MOST: a picture as the processors
// of transformers resize it, for tests/peer/mtmd/compare.py. KIND is gemma4 or gemma4_unified; ROWS is the most rows of
// a picture, LEAST and MOST count pixels. The resizing itself is held to the goldens' pixels by `sluice verify`.
#include <charconv>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "media/decode/picture_file.h"
#include "media/resize.h"
#include "media/sizes.h"

namespace sluice {
namespace {

Result<uint32_t> number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    return error(ErrorKind::invalid, text, ": want a number");
  return value;
}

Result<Picture> resized(const std::vector<std::string>& arguments) {
  TRY(const std::string bytes, read_file(arguments[0], kMaxMediaBytes));
  TRY(const Picture picture, decode_picture(std::as_bytes(std::span(bytes)), arguments[0]));
  TRY(const uint32_t block, number(arguments[3]));
  TRY(const uint32_t first, number(arguments[4]));
  const PictureSize from{.width = picture.width, .height = picture.height};
  if (arguments[2] == "qwen") {
    TRY(const uint32_t most, number(arguments[5]));
    TRY(const PictureSize to, size_for_pixels(from, block, {.least = first, .most = most}));
    return to == from ? picture : resize_bicubic(picture, to.width, to.height);
  }
  const PictureSize to = size_for_rows(from, block, first);
  if (to == from) return picture;
  return arguments[2] == "gemma4" ? resize_bicubic(picture, to.width, to.height)
                                  : resize_bicubic_torch(picture, to.width, to.height);
}

Status write(const Picture& picture, const std::string& path) {
  std::string bytes = cat("P6\n", picture.width, " ", picture.height, "\n255\n");
  bytes.append(reinterpret_cast<const char*>(picture.pixels.data()), picture.pixels.size());
  return write_file(path, bytes);
}

Status run(const std::vector<std::string>& arguments) {
  const bool is_qwen = arguments.size() > 2 && arguments[2] == "qwen";
  if (arguments.size() != (is_qwen ? 6 : 5))
    return error(ErrorKind::invalid, "want PICTURE OUT.ppm KIND BLOCK ROWS, or PICTURE OUT.ppm qwen BLOCK LEAST MOST");
  TRY(const Picture picture, resized(arguments));
  return write(picture, arguments[1]);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const sluice::Status status = sluice::run({argv + 1, argv + argc});
  if (!status) std::fprintf(stderr, "peer_resized: %s\n", status.error().text.c_str());
  return status ? 0 : 1;
}
