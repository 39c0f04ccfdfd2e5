// Qwen3.5's configuration, read from config.json or GGUF keys and checked. qwen3_5_config.cpp reads and writes it; the
// program in qwen3_5.cpp shows what the fields mean.
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
  uint32_t prediction_layers = 0;   // layers for multi-token prediction; GGUF counts them as blocks
  bool draft_head = false;          // the checkpoint has the prediction layer behind the others
  bool mtp_names = false;           // a GGUF file with Hugging Face's names for that layer: "mtp."
  std::vector<uint32_t> recurrent;  // for each layer: 1 is a gated delta net, 0 full attention
  uint32_t full_interval = 0;       // every so many-th layer is full, if there is no list of layers
  uint32_t heads = 0, head_dim = 0, value_dim = 0, rope_dim = 0;  // of full layers
  std::vector<uint32_t> kv_heads;                                 // one a layer
  float rope_theta = 0, eps = 0;
  Yarn yarn;                           // factor 1: none
  float rope_magnitude = 1;            // of cos and sin
  std::vector<int32_t> rope_sections;  // pairs for time, height and width; for text all turn alike
  uint32_t conv_taps = 0, delta_key_heads = 0, delta_value_heads = 0, delta_key_dim = 0, delta_value_dim = 0;
  uint32_t feed_forward = 0;                                                   // width in dense models
  uint32_t experts = 0, experts_used = 0, expert_width = 0, shared_width = 0;  // 0: dense
  bool tied = false;                                                           // the head is the embedding table
  bool norms_are_factors = false;        // stored norms are 1 + w, as MLX writes them
  KeyHeads key_heads = KeyHeads::block;  // which value heads share a key head: tiled in GGUF files

  uint32_t delta_keys() const { return delta_key_heads * delta_key_dim; }
  uint32_t delta_values() const { return delta_value_heads * delta_value_dim; }
};

Result<Config> read_config(const Checkpoint& checkpoint, const SourceNames& names, const char* architecture);
std::vector<GgufMetadata::Entry> gguf_config(Config config, const char* architecture);

}  // namespace sluice::qwen3_5
