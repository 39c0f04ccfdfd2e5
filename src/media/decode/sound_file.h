// decode_sound(): the bytes of a WAV, FLAC, Ogg (Vorbis, Opus), MP3 or AIFF file as one channel at 16 kHz, the rate
// that audio towers take. Channels are averaged; other rates are converted by soxr in its high quality. A file of one
// channel at 16 kHz passes unchanged: 16-bit samples are divided by 32768.
//
// A file is hostile: it is decoded piece by piece, so that memory grows with the limit of seconds alone. Which kind a
// file is follows from its content, never from its name. Debian's libraries decode it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"
#include "media/sound.h"

namespace sluice {

inline constexpr uint32_t kSoundRate = 16000;

struct SoundLimits {
  uint64_t bytes = kMaxMediaBytes;
  uint32_t seconds = kMaxSoundSeconds;
  // Called before each piece with the bytes that the samples take then, at most. An error ends the decoding. Empty: all
  // the limits allow has room.
  std::function<Status(uint64_t bytes)> room = {};
};

// Whether a file that begins so is of a kind that is decoded; 40 bytes tell.
bool is_sound(std::string_view first);

// Every error begins with `name`.
Result<Sound> decode_sound(std::span<const std::byte> bytes, const std::string& name, const SoundLimits& limits = {});

}  // namespace sluice
