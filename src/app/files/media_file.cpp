#include "app/files/media_file.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "app/files/film_file.h"
#include "base/files/file.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "base/text.h"
#include "media/decode/picture_file.h"
#include "media/decode/sound_file.h"
#include "media/resize.h"

namespace sluice {
namespace {

constexpr size_t kFirstBytes = 256;                        // that tell what a file is
constexpr uint32_t kSmallWidth = 320, kSmallHeight = 200;  // of a picture shown in a terminal, at most
constexpr size_t kTransportPacket = 188;                   // bytes of MPEG-TS

std::span<const std::byte> bytes_of(const std::string& contents) {
  return std::as_bytes(std::span(contents.data(), contents.size()));
}

// MP4 and its relatives but those that hold one picture or sound alone; Matroska, AVI, FLV, MPEG, ASF, Theora.
bool is_film(std::string_view first) {
  const auto at = [first](size_t from, std::string_view word) {
    return first.size() >= from + word.size() && first.substr(from, word.size()) == word;
  };
  if (at(4, "ftyp")) {
    const auto is_brand = [&](std::string_view brand) { return at(8, brand); };
    constexpr std::array<std::string_view, 7> kOthers = {"avif", "heic", "heix", "mif1", "msf1", "M4A ", "M4B "};
    return std::ranges::none_of(kOthers, is_brand);
  }
  if (at(4, "moov") || at(4, "mdat") || at(4, "wide")) return true;
  if (at(0, "RIFF")) return at(8, "AVI ");
  if (at(0, "OggS")) return at(28, "\x80theora");
  constexpr std::string_view kMpeg("\0\0\1\xba", 4);
  return at(0, "\x1a\x45\xdf\xa3") || at(0, "FLV\1") || at(0, kMpeg) || at(0, "\x30\x26\xb2\x75") ||
         (at(0, "G") && at(kTransportPacket, "G"));
}

Picture small_picture(const Picture& picture) {
  if (picture.width <= kSmallWidth && picture.height <= kSmallHeight) return picture;
  const double shrink = std::min(double{kSmallWidth} / picture.width, double{kSmallHeight} / picture.height);
  const auto side = [shrink](uint32_t pixels) { return std::max(static_cast<uint32_t>(pixels * shrink), 1u); };
  return resize_bicubic(picture, side(picture.width), side(picture.height));
}

Result<std::vector<PreparedMedia>> picture_of(const Model& model, MediaSource& source) {
  TRY(const Picture picture, decode_picture(bytes_of(source.bytes), source.name));
  source.width = picture.width;
  source.height = picture.height;
  source.small = small_picture(picture);
  TRY(PreparedMedia media, prepare_media(model, picture, source.options));
  return std::vector{std::move(media)};
}

Result<std::vector<PreparedMedia>> sound_of(const Model& model, MediaSource& source) {
  TRY(const Sound sound, decode_sound(bytes_of(source.bytes), source.name));
  source.seconds = static_cast<double>(sound.samples.size()) / sound.rate;
  TRY(PreparedMedia media, prepare_media(model, sound));
  return std::vector{std::move(media)};
}

Result<std::vector<PreparedMedia>> film_of(const Model& model, MediaSource& source) {
  if (!model.has(ProgramKind::vision)) return model.prepare(Picture(), PictureOptions()).error();
  TRY(const FilmFacts facts, probe_film(source.path));
  const std::vector<uint64_t> numbers = model.film_rules().choose(facts.frames, facts.rate);
  source.seconds = static_cast<double>(facts.frames) / facts.rate;
  FilmPreparer steps(model, static_cast<uint32_t>(numbers.size()));
  TRY_STATUS(read_frames(source.path, numbers, [&](Picture frame, uint64_t number) {
    if (source.frames++ == 0) {
      source.width = frame.width;
      source.height = frame.height;
      source.small = small_picture(frame);
    }
    return steps.add(std::move(frame), static_cast<double>(number) / facts.rate);
  }));
  return steps.finish();
}

Result<std::vector<PreparedMedia>> prepare_kind(const Model& model, MediaSource& source) {
  switch (source.kind) {
    case MediaKind::picture: return picture_of(model, source);
    case MediaKind::sound: return sound_of(model, source);
    case MediaKind::film: break;
  }
  return film_of(model, source);
}

// All of the file, or, of a film, its digest alone.
Result<MediaSource> read_source(const std::string& path, MediaKind kind, const PictureOptions& options) {
  MediaSource source{.kind = kind, .name = std::string(file_name(path)), .options = options};
  Sha256 sha;
  if (kind == MediaKind::film) {
    source.path = path;
    TRY(const auto file, FileSource::open(path));
    std::vector<std::byte> piece;
    for (uint64_t at = 0; at < file->size(); at += piece.size()) {
      piece.resize(static_cast<size_t>(std::min<uint64_t>(uint64_t{1} << 20, file->size() - at)));
      TRY_STATUS(file->read_at(at, piece));
      sha.add(piece);
    }
  } else {
    TRY_ASSIGN(source.bytes, read_file(path, kMaxMediaBytes));
    sha.add(source.bytes);
  }
  source.digest = sha.finish_hex();
  return source;
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
  if (is_sound(contents)) {
    TRY(const Sound sound, decode_sound(bytes_of(contents), path));
    return prepare_media(model, sound);
  }
  TRY(const Picture picture, decode_picture(bytes_of(contents), path));
  return prepare_media(model, picture, options);
}

std::optional<MediaKind> media_kind(const std::string& path) {
  if (path_kind(path) != PathKind::file) return std::nullopt;
  const auto file = FileSource::open(path);
  if (!file) return std::nullopt;
  std::string first(static_cast<size_t>(std::min<uint64_t>(kFirstBytes, (*file)->size())), '\0');
  if (!(*file)->read_at(0, std::as_writable_bytes(std::span(first)))) return std::nullopt;
  if (is_film(first)) return MediaKind::film;
  if (is_picture(first)) return MediaKind::picture;
  return is_sound(first) ? std::optional(MediaKind::sound) : std::nullopt;
}

Result<std::vector<PreparedMedia>> open_media(const Model& model, const std::string& path, MediaKind kind,
                                              const PictureOptions& options) {
  TRY(MediaSource source, read_source(path, kind, options));
  return prepare_source(model, std::move(source));
}

Result<std::vector<PreparedMedia>> prepare_source(const Model& model, MediaSource source) {
  TRY(std::vector<PreparedMedia> media, prepare_kind(model, source));
  const auto shared = std::make_shared<const MediaSource>(std::move(source));
  for (PreparedMedia& one : media) {
    one.label = shared->name;
    one.source = shared;
  }
  return media;
}

}  // namespace sluice
