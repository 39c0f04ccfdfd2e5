// Configuration of Qwen3.5's vision tower, checked. It is read from config.json's vision_config and
// preprocessor_config.json, or from the GGUF keys of llama.cpp (clip.vision.*) or Ollama (<architecture>.vision.*). The
// program in qwen3_5_vision.cpp and the pictures in qwen3_5_pictures.cpp show what the fields mean.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "graph/ops/elementwise.h"
#include "media/sizes.h"
#include "model/tower.h"

namespace sluice {
class SourceNames;
}

namespace sluice::qwen3_5 {

// The order of a patch's numbers, outermost first. It is the order of the kernel's columns in the checkpoint.
enum class PatchOrder : uint8_t {
  channel_frame,  // channel, frame, y, x: Hugging Face, Ollama
  frame_channel,  // frame, channel, y, x: llama.cpp, which has one kernel for each frame
  channel_last,   // frame, y, x, channel: MLX
};

struct VisionConfig {
  uint32_t layers = 0, hidden = 0, feed_forward = 0, heads = 0;
  uint32_t patch = 0;                                     // side of a patch in pixels
  uint32_t merge = 0;                                     // merge x merge patches become one row of the text
  uint32_t frames = 0;                                    // frames of a patch; a picture fills all of them
  uint32_t side = 0;                                      // side of the square position table
  uint32_t out = 0;                                       // width of the text's rows
  float eps = 0;                                          // of every norm
  ActivationKind activation = ActivationKind::gelu_tanh;  // of the layers; the merger has gelu
  PatchOrder order = PatchOrder::channel_frame;
  bool fused = true;                         // queries, keys and values are one matrix
  PixelRange picture, film;                  // of a resized picture, and of all frames of a resized film together
  std::array<float, 3> mean{}, deviation{};  // of red, green and blue, 0 to 1
  TowerTokens tokens;

  uint32_t head_dim() const { return hidden / heads; }
  uint32_t patches_per_row() const { return merge * merge; }
  uint32_t patch_elements() const { return 3 * frames * patch * patch; }
};

// The keys of llama.cpp's mmproj files. The text's width is the tower's.
std::vector<GgufMetadata::Entry> vision_keys(VisionConfig config);

// None if the checkpoint's configuration has no such tower.
Result<std::optional<VisionConfig>> read_vision_config(const Checkpoint& checkpoint, const SourceNames& names,
                                                       const char* architecture, uint32_t text_hidden);

}  // namespace sluice::qwen3_5
