#include "chat/saved_media.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/files/file.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kDigestDigits = 64;

// Calls `take` with the whole file, piece by piece.
template <class Take>
Status read_pieces(const std::string& path, const Take& take) {
  TRY(const auto file, FileSource::open(path));
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < file->size(); at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(kPieceBytes, file->size() - at)));
    TRY_STATUS(file->read_at(at, piece));
    TRY_STATUS(take(std::span<const std::byte>(piece)));
  }
  return {};
}

Status copy_film(const MediaSource& film, const std::string& to) {
  TRY(AtomicFile copy, AtomicFile::create(to));
  Sha256 sha;
  TRY_STATUS(read_pieces(film.path, [&](std::span<const std::byte> piece) {
    sha.add(piece);
    return copy.write(piece);
  }));
  if (sha.finish_hex() != film.digest)
    return error(ErrorKind::invalid, film.path, ": has changed since it was shown: want the film that was");
  return copy.commit();
}

Status save_one(const MediaSource& source, const std::string& folder) {
  const std::string to = join_path(folder, source.digest);
  if (path_kind(to) == PathKind::file) return {};
  return source.kind == MediaKind::film ? copy_film(source, to) : write_file(to, source.bytes);
}

Error wrong(const std::string& where, const char* name, const std::string& want) {
  return error(ErrorKind::corrupt, where, ": ", name, " is missing or wrong: want ", want);
}

std::optional<MediaKind> kind_of(const Json* name) {
  if (name == nullptr || !name->is_string()) return std::nullopt;
  for (const MediaKind kind : {MediaKind::picture, MediaKind::sound, MediaKind::film})
    if (name->as_string() == media_kind_name(kind)) return kind;
  return std::nullopt;
}

bool is_digest(const Json* text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text != nullptr && text->is_string() && text->as_string().size() == kDigestDigits &&
         std::ranges::all_of(text->as_string(), is_digit);
}

// All but the file's bytes.
Result<MediaSource> read_entry(const Json& json, const std::string& where) {
  const std::optional<MediaKind> kind = kind_of(json.find("kind"));
  if (!kind) return wrong(where, "kind", "picture, sound or film");
  const Json* name = json.find("name");
  if (name == nullptr || !name->is_string()) return wrong(where, "name", "a text");
  if (!is_digest(json.find("file"))) return wrong(where, "file", "a SHA-256 of 64 digits");
  const Json* tokens = json.find("image_tokens");
  const bool is_limit =
      tokens != nullptr && tokens->is_integer() && tokens->as_integer() > 0 && tokens->as_integer() <= kMaxTowerRows;
  if (tokens != nullptr && !is_limit) return wrong(where, "image_tokens", cat("1 to ", kMaxTowerRows));
  MediaSource source{.kind = *kind, .name = name->as_string(), .digest = json.find("file")->as_string()};
  if (is_limit) source.options.max_rows = static_cast<uint32_t>(tokens->as_integer());
  return source;
}

Status read_bytes(MediaSource& source, const std::string& path) {
  Sha256 sha;
  if (source.kind == MediaKind::film) {
    source.path = path;
    TRY_STATUS(read_pieces(path, [&](std::span<const std::byte> piece) {
      sha.add(piece);
      return Status();
    }));
  } else {
    TRY_ASSIGN(source.bytes, read_file(path, kMaxMediaBytes));
    sha.add(source.bytes);
  }
  if (sha.finish_hex() == source.digest) return {};
  return error(ErrorKind::corrupt, path, ": is not the file that was saved: want the ", media_kind_name(source.kind),
               " ", printable(source.name));
}

}  // namespace

std::string media_folder(const std::string& conversation_path) { return conversation_path + ".media"; }

Status save_media(const std::vector<PreparedMedia>& media, const std::string& folder) {
  for (const PreparedMedia& one : media) {
    if (one.source == nullptr) {
      return error(ErrorKind::unsupported, folder, ": ", printable(one.label), " came as pixels or samples: want the ",
                   "file of each picture and sound, since only files are saved");
    }
    if (!one.is_first()) continue;
    TRY_STATUS(make_folders(folder));
    TRY_STATUS(save_one(*one.source, folder));
  }
  return {};
}

Json media_json(const std::vector<PreparedMedia>& media) {
  Json::Array list;
  for (const PreparedMedia& one : media) {
    if (!one.is_first()) continue;
    const MediaSource& source = *one.source;
    Json::Object entry = {{"kind", media_kind_name(source.kind)}, {"name", source.name}, {"file", source.digest}};
    if (source.options.max_rows != 0) entry.emplace_back("image_tokens", int64_t{source.options.max_rows});
    list.emplace_back(std::move(entry));
  }
  return list;
}

Result<std::vector<PreparedMedia>> load_media(const Json& list, const std::string& folder, const std::string& where,
                                              const Model& model, const MediaPreparer& prepare) {
  if (!list.is_array()) return wrong(where, "media", "a list");
  if (!prepare) return error(ErrorKind::unsupported, where, ": shows media: want a conversation of text alone");
  std::vector<PreparedMedia> media;
  for (const Json& entry : list.as_array()) {
    TRY(MediaSource source, read_entry(entry, cat(where, ": media ", media.size())));
    TRY_STATUS(read_bytes(source, join_path(folder, source.digest)));
    TRY(std::vector<PreparedMedia> prepared, prepare(model, std::move(source)));
    for (PreparedMedia& one : prepared) media.push_back(std::move(one));
  }
  return media;
}

}  // namespace sluice
