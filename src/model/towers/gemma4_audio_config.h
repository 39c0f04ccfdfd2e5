// Configuration and weights of Gemma 4's audio tower (gemma4_audio.cpp).
#pragma once

#include <array>
#include <string>

#include "base/result.h"
#include "model/config.h"
#include "model/family.h"
#include "model/weight_table.h"

namespace sluice::gemma4 {

struct AudioConfig {
  uint32_t layers = 0, hidden = 0, heads = 0;
  uint32_t encoded = 0;                // width of the layers' result
  std::array<uint32_t, 2> channels{};  // of the two convolutions
  uint32_t kernel = 5;                 // taps of a layer's convolution
  uint32_t window = 12;                // frames that a frame sees, including itself
  float eps = 1e-6f, softcap = 50.0f, residual = 0.5f;
  bool clipped = false;
  bool of_ollama = false;  // GGUF with Ollama's own names
  uint32_t text_hidden = 0;

  uint32_t head_dim() const { return hidden / heads; }
};

Result<AudioConfig> read_audio(const Checkpoint& checkpoint, const SourceNames& names, const std::string& keys);
WeightTable audio_weights(const AudioConfig& config);
ProjectorPart audio_projector(AudioConfig config);
// Adds the weights that are computed from stored ones: kSecondConv with ".0", ".1" and ".2", one matrix for each row of
// the second convolution's kernel; and for each layer "q_scale", "relative" and "conv".
void make_audio_weights(const AudioConfig& config, BoundWeights& weights);

// Mel bands of a frame, and the bands that are left after both convolutions.
inline constexpr uint32_t kBands = 128, kBandsOfRow = kBands / 4;
inline constexpr uint32_t kConvTaps = 3;  // in both directions
inline constexpr const char* kSecondConv = "audio.subsample.1.conv";

}  // namespace sluice::gemma4
