// The decoders behind decode_sound(). Each is called with a file that begins as its kind does.
#pragma once

#include "media/decode/sound_file.h"

namespace sluice {

struct SoundBytes {
  std::span<const std::byte> bytes;
  const std::string& name;
  const SoundLimits& limits;

  int64_t size() const { return static_cast<int64_t>(bytes.size()); }
};

// WAV, FLAC, Ogg and AIFF.
Result<Sound> decode_by_sndfile(const SoundBytes& file);
Result<Sound> decode_mp3(const SoundBytes& file);

// What a decoder says of a file that it cannot read to the end.
Error damaged_sound(const std::string& name, std::string_view found);

}  // namespace sluice
