// Qwen3.5's configuration, as config.json or GGUF keys give it, checked. Reading and writing: qwen3_5_config.cpp; what
// the fields mean stands with the program in qwen3_5.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "graph/ops/recurrent.h"
#include "model/rope.h"
#include "model/weight_table.h"

namespace sluice::qwen3_5 {

struct Config {
  uint32_t vocabulary = 0, layers = 0, context = 0, hidden = 0;
  uint32_t prediction_layers = 0;   // of multi-token prediction, which GGUF counts among the blocks
  bool draft_head = false;          // the checkpoint has such a layer; it is that behind the others
  bool mtp_names = false;           // a GGUF file names its tensors as Hugging Face does: "mtp."
  std::vector<uint32_t> recurrent;  // one a layer: a gated delta net, or full attention
  uint32_t full_interval = 0;       // every so many-th layer is full, where layers do not say it one by one
  uint32_t heads = 0, head_dim = 0, value_dim = 0, rope_dim = 0;  // of full layers
  std::vector<uint32_t> kv_heads;                                 // one a layer
  float rope_theta = 0, eps = 0;
  Yarn yarn;                           // factor 1: none
  float rope_magnitude = 1;            // of cos and sin
  std::vector<int32_t> rope_sections;  // pairs of time, height and width; for text all turn alike
  uint32_t conv_taps = 0, delta_key_heads = 0, delta_value_heads = 0, delta_key_dim = 0, delta_value_dim = 0;
  uint32_t feed_forward = 0;                                                   // of dense models
  uint32_t experts = 0, experts_used = 0, expert_width = 0, shared_width = 0;  // 0: dense
  bool tied = false;                                                           // the head is the embedding table
  bool norms_are_factors = false;                                              // hold 1 + w, as MLX writes them
  KeyHeads key_heads = KeyHeads::block;  // of value heads: GGUF files have them tiled

  uint32_t delta_keys() const { return delta_key_heads * delta_key_dim; }
  uint32_t delta_values() const { return delta_value_heads * delta_value_dim; }
};

Result<Config> read_config(const Checkpoint& checkpoint, const SourceNames& names, const char* architecture);
std::vector<GgufMetadata::Entry> gguf_config(Config config, const char* architecture);

}  // namespace sluice::qwen3_5
