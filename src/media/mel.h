// Log-mel frames of a sound, as Gemma 4's audio tower takes them (Gemma4AudioFeatureExtractor of transformers): 128
// numbers every 10 ms. A frame is 320 samples under a periodic Hann window, the first one centred on the first sample.
// Its spectrum is that of 512 points; each number is ln(0.001 + the sum of magnitudes under one triangle). The
// triangles lie evenly on the HTK mel scale from 0 to 8 kHz.
#pragma once

#include "media/sound.h"

namespace sluice {

inline constexpr uint32_t kMelRate = 16000;  // samples a second
inline constexpr uint32_t kMelBands = 128;

// The extractor pads a sound to a multiple of 128 samples. Frames that reach into the padding are not valid, and are
// zeros; they are the last ones.
struct MelFrames {
  uint32_t frames = 0;
  uint32_t valid = 0;
  std::vector<float> values;  // [frames][kMelBands]
};

// `sound` has the rate kMelRate.
MelFrames log_mel(const Sound& sound);

}  // namespace sluice
