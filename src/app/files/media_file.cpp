#include "app/files/media_file.h"

#include <string_view>
#include <utility>

#include "base/files/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "media/decode/picture_file.h"
#include "media/decode/sound_file.h"

namespace sluice {
namespace {

std::span<const std::byte> bytes_of(const std::string& contents) {
  return std::as_bytes(std::span(contents.data(), contents.size()));
}

// WAV, FLAC, Ogg, AIFF, MP3 with and without a tag.
bool is_sound(std::string_view contents) {
  if (starts_with(contents, "RIFF")) return contents.substr(0, 12).ends_with("WAVE");
  if (starts_with(contents, "fLaC") || starts_with(contents, "OggS") || starts_with(contents, "ID3")) return true;
  if (starts_with(contents, "FORM") || starts_with(contents, "RF64")) return true;
  return contents.size() > 1 && contents[0] == '\xff' && (contents[1] & '\xe0') == '\xe0' && contents[1] != '\xd8';
}

PreparedMedia labelled(PreparedMedia media, const std::string& path) {
  media.label = file_name(path);
  return media;
}

Result<PreparedMedia> prepare_picture(const Model& model, const std::string& contents, const std::string& path,
                                      const PictureOptions& options) {
  TRY(const Picture picture, decode_picture(bytes_of(contents), path));
  TRY(PreparedMedia media, prepare_media(model, picture, options));
  return labelled(std::move(media), path);
}

Result<PreparedMedia> prepare_sound(const Model& model, const std::string& contents, const std::string& path) {
  TRY(const Sound sound, decode_sound(bytes_of(contents), path));
  TRY(PreparedMedia media, prepare_media(model, sound));
  return labelled(std::move(media), path);
}

}  // namespace

Result<Picture> read_picture(const std::string& path) {
  TRY(const std::string contents, read_file(path, kMaxMediaBytes));
  return decode_picture(bytes_of(contents), path);
}

Result<Sound> read_sound(const std::string& path) {
  TRY(const std::string contents, read_file(path, kMaxMediaBytes));
  return decode_sound(bytes_of(contents), path);
}

Result<PreparedMedia> open_media(const Model& model, const std::string& path, const PictureOptions& options) {
  TRY(const std::string contents, read_file(path, kMaxMediaBytes));
  if (is_sound(contents)) return prepare_sound(model, contents, path);
  return prepare_picture(model, contents, path, options);
}

Result<PreparedMedia> open_picture(const Model& model, const std::string& path, const PictureOptions& options) {
  TRY(const std::string contents, read_file(path, kMaxMediaBytes));
  return prepare_picture(model, contents, path, options);
}

Result<PreparedMedia> open_sound(const Model& model, const std::string& path) {
  TRY(const std::string contents, read_file(path, kMaxMediaBytes));
  return prepare_sound(model, contents, path);
}

}  // namespace sluice
