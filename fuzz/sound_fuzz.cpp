// Sounds of any bytes: what is decoded keeps to its limits, and has mel frames.
#include <cmath>

#include "base/check.h"
#include "media/decode/sound_file.h"
#include "media/mel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint32_t kSeconds = 2;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto sound = sluice::decode_sound(bytes, "file", {.seconds = kSeconds});
  if (!sound) return 0;
  CHECK(sound->rate == sluice::kSoundRate && !sound->samples.empty());
  CHECK(sound->samples.size() <= size_t{kSeconds} * sluice::kSoundRate + 1);
  const sluice::MelFrames mel = sluice::log_mel(*sound);
  CHECK(mel.valid <= mel.frames && mel.values.size() == size_t{mel.frames} * sluice::kMelBands);
  return 0;
}
