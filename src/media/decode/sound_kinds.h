// The decoders behind decode_sound(). Each is called with a file that begins as its kind does.
#pragma once

#include "media/decode/sound_file.h"

namespace sluice {

struct SoundBytes {
  std::span<const std::byte> bytes;
  const std::string& name;
  const SoundLimits& limits;
};

// WAV, FLAC and AIFF.
Result<Sound> decode_by_sndfile(const SoundBytes& file);
Result<Sound> decode_mp3(const SoundBytes& file);
Result<Sound> decode_vorbis(const SoundBytes& file);
Result<Sound> decode_opus(const SoundBytes& file);

// A cursor over the bytes, for the callbacks of libraries. As in a file, the position may be behind the end.
class SoundCursor {
 public:
  explicit SoundCursor(const SoundBytes& file) : file_(file) {}

  int64_t at() const { return at_; }
  int64_t size() const { return static_cast<int64_t>(file_.bytes.size()); }
  // Returns the number of bytes read.
  size_t read(void* out, size_t count);
  // The new position, with `whence` as fseek has it; -1 if it cannot be.
  int64_t seek(int64_t offset, int whence);

 private:
  const SoundBytes& file_;
  int64_t at_ = 0;
};

// The error about a file that a decoder cannot read to the end.
Error damaged_sound(const std::string& name, std::string_view found);

}  // namespace sluice
