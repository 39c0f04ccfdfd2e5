#include "wasm/media_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "base/text.h"

namespace sluice::wasm {
namespace {

constexpr uint64_t kPageColours = 4, kColours = 3;  // bytes of a pixel

Status check_pixels(const PagePixels& pixels) {
  const auto size = [&] { return cat("picture of ", pixels.width, " x ", pixels.height, " pixels"); };
  if (pixels.width == 0 || pixels.height == 0 || pixels.frames == 0)
    return error(ErrorKind::invalid, size(), ": want at least one");
  if (pixels.width > kMaxPictureSide || pixels.height > kMaxPictureSide)
    return error(ErrorKind::unsupported, size(), ": want sides of at most ", kMaxPictureSide);
  const uint64_t count = uint64_t{pixels.width} * pixels.height;
  if (count > kMaxPicturePixels)
    return error(ErrorKind::unsupported, size(), ": want at most ", kMaxPicturePixels, " pixels");
  const uint64_t bytes = pixels.bytes.size();
  if (bytes % (count * kPageColours) == 0 && bytes / (count * kPageColours) == pixels.frames) return {};
  return error(ErrorKind::invalid, size(), ": has ", bytes, " bytes: want ", kPageColours, " a pixel");
}

// Transparency is dropped, as it is of decoded files.
Picture frame_of(const PagePixels& pixels, size_t frame) {
  const auto count = static_cast<size_t>(uint64_t{pixels.width} * pixels.height);
  Picture picture{pixels.width, pixels.height, std::vector<uint8_t>(count * kColours)};
  const uint8_t* from = pixels.bytes.data() + frame * count * kPageColours;
  for (size_t i = 0; i < count; ++i) std::copy_n(from + i * kPageColours, kColours, &picture.pixels[i * kColours]);
  return picture;
}

Json reply_of(Json::Array numbers, uint32_t rows) {
  return Json::Object{{"media", std::move(numbers)}, {"rows", int64_t{rows}}};
}

bool shows_media(const Json& part) {
  const Json* const type = part.find("type");
  if (type == nullptr) return part.find("text") == nullptr;
  return !type->is_string() || type->as_string() != "text";
}

Result<uint32_t> number_of(const Json& part) {
  const Json* const number = part.find("media");
  if (number == nullptr)
    return error(ErrorKind::invalid, "messages: found ", write_json(part), ": want text, or media with its number");
  if (number->is_integer() && number->as_integer() > 0 && number->as_integer() <= std::numeric_limits<uint32_t>::max())
    return static_cast<uint32_t>(number->as_integer());
  return error(ErrorKind::invalid, "media: found ", write_json(*number), ": want the number of a picture or sound");
}

}  // namespace

int64_t MediaTable::add(PreparedMedia media) {
  media_.emplace(++last_, std::move(media));
  return last_;
}

Result<Json> MediaTable::add_picture(const Model& model, const PagePixels& pixels, uint32_t max_rows) {
  TRY_STATUS(check_pixels(pixels));
  TRY(PreparedMedia media, prepare_media(model, frame_of(pixels, 0), {.max_rows = max_rows}));
  const uint32_t rows = media.rows();
  return reply_of({add(std::move(media))}, rows);
}

Result<Json> MediaTable::add_film(const Model& model, const PagePixels& pixels) {
  TRY_STATUS(check_pixels(pixels));
  std::vector<Picture> frames;
  for (size_t frame = 0; frame < pixels.frames; ++frame) frames.push_back(frame_of(pixels, frame));
  TRY(std::vector<PreparedMedia> film, prepare_film(model, frames));
  Json::Array numbers;
  uint32_t rows = 0;
  for (PreparedMedia& one : film) {
    rows += one.rows();
    numbers.emplace_back(add(std::move(one)));
  }
  return reply_of(std::move(numbers), rows);
}

Result<Json> MediaTable::add_sound(const Model& model, std::span<const float> samples, uint32_t rate) {
  const auto wrong = std::ranges::find_if_not(samples, [](float sample) { return std::isfinite(sample); });
  if (wrong != samples.end())
    return error(ErrorKind::invalid, "sound: sample ", wrong - samples.begin(), " is no number: want finite ones");
  TRY(PreparedMedia media, prepare_media(model, Sound{rate, {samples.begin(), samples.end()}}));
  const uint32_t rows = media.rows();
  return reply_of({add(std::move(media))}, rows);
}

Result<std::vector<PreparedMedia>> MediaTable::named(const std::vector<uint32_t>& numbers) const {
  std::vector<PreparedMedia> media;
  for (const uint32_t number : numbers) {
    const auto found = media_.find(number);
    if (found == media_.end())
      return error(ErrorKind::not_found, "media: there is no picture or sound ", number, ": want it added first");
    media.push_back(found->second);
  }
  return media;
}

Result<std::vector<PreparedMedia>> MediaTable::shown_by(const Json& messages) const {
  std::vector<uint32_t> numbers;
  if (!messages.is_array()) return named(numbers);
  for (const Json& message : messages.as_array()) {
    const Json* const content = message.find("content");
    if (content == nullptr || !content->is_array()) continue;
    for (const Json& part : content->as_array()) {
      if (!shows_media(part)) continue;
      TRY(const uint32_t number, number_of(part));
      numbers.push_back(number);
    }
  }
  return named(numbers);
}

}  // namespace sluice::wasm
