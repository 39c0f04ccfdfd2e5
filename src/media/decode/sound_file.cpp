#include "media/decode/sound_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "media/decode/sound_kinds.h"

namespace sluice {
namespace {

// libsndfile opens many more kinds of files; those that few people have are not let in.
bool is_sndfiles(std::string_view text) {
  const auto at_8 = [&](std::string_view word) { return text.size() >= 12 && text.substr(8).starts_with(word); };
  if (text.starts_with("RIFF") || text.starts_with("RF64")) return at_8("WAVE");
  if (text.starts_with("FORM")) return at_8("AIFF") || at_8("AIFC");
  return text.starts_with("fLaC");
}

// An Ogg file whose first packet, behind a page header of 28 bytes, begins with `packet`.
bool is_ogg(std::string_view text, std::string_view packet) {
  return text.starts_with("OggS") && text.size() > 28 && text.substr(28).starts_with(packet);
}

bool is_mp3(std::string_view text) {
  const bool frame = text.size() > 1 && text[0] == '\xff' && (static_cast<uint8_t>(text[1]) & 0xe0) == 0xe0;
  return frame || text.starts_with("ID3");
}

}  // namespace

bool is_sound(std::string_view first) {
  return is_sndfiles(first) || is_ogg(first, "\1vorbis") || is_ogg(first, "OpusHead") || is_mp3(first);
}

Result<Sound> decode_sound(std::span<const std::byte> bytes, const std::string& name, const SoundLimits& limits) {
  constexpr char wanted[] = ": want a WAV, FLAC, Ogg (Vorbis, Opus), MP3 or AIFF sound";
  if (bytes.empty()) return error(ErrorKind::corrupt, name, ": empty file", wanted);
  if (bytes.size() > limits.bytes)
    return error(ErrorKind::unsupported, name, ": ", bytes.size(), " bytes: want at most ", limits.bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (is_sndfiles(text)) return decode_by_sndfile({bytes, name, limits});
  if (is_ogg(text, "\1vorbis")) return decode_vorbis({bytes, name, limits});
  if (is_ogg(text, "OpusHead")) return decode_opus({bytes, name, limits});
  if (is_mp3(text)) return decode_mp3({bytes, name, limits});
  return error(ErrorKind::unsupported, name, ": begins with '", printable(text.substr(0, 8)), "'", wanted);
}

Error damaged_sound(const std::string& name, std::string_view found) {
  return error(ErrorKind::corrupt, name, ": ", printable(found), ": want an undamaged sound");
}

size_t SoundCursor::read(void* out, size_t count) {
  const auto left = static_cast<size_t>(std::max<int64_t>(size() - at_, 0));
  const size_t taken = std::min(count, left);
  if (taken > 0) std::memcpy(out, file_.bytes.data() + at_, taken);
  at_ += static_cast<int64_t>(taken);
  return taken;
}

int64_t SoundCursor::seek(int64_t offset, int whence) {
  const int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? at_ : size();
  int64_t at = 0;
  if (__builtin_add_overflow(base, offset, &at) || at < 0) return -1;
  return at_ = at;
}

}  // namespace sluice
