// Gemma 4's configuration, read from config.json or GGUF keys and checked. gemma4_config.cpp reads and writes it; the
// program in gemma4.cpp shows what the fields mean.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/rope.h"
#include "model/weight_table.h"

namespace sluice::gemma4 {

// What GGUF calls the model and the one that drafts for it: general.architecture and the prefix of keys.
inline constexpr const char* kArchitecture = "gemma4";
inline constexpr const char* kAssistantArchitecture = "gemma4-assistant";

struct Config {
  uint32_t vocabulary = 0, layers = 0, context = 0, hidden = 0, heads = 0, window = 0;
  uint32_t shared_kv_layers = 0;                                               // the last layers, which own no keys
  std::vector<uint32_t> feed_forward, kv_heads, sliding, value_is_key;         // one a layer
  bool scaled = true;                                                          // layers end with a scalar
  uint32_t head_dim = 0, value_dim = 0, rope_dim = 0;                          // of full layers
  uint32_t sliding_head_dim = 0, sliding_value_dim = 0, sliding_rope_dim = 0;  // of sliding layers
  float rope_theta = 0, sliding_rope_theta = 0, eps = 0;
  std::vector<float> rope_factors;                           // of full layers, one a pair
  Yarn yarn;                                                 // of full layers; factor 1: none
  float softcap = 0;                                         // 0: none
  uint32_t per_layer_width = 0;                              // 0: no per-layer embeddings
  uint32_t experts = 0, experts_used = 0, expert_width = 0;  // 0: dense only
  bool tied = true;                                          // the head is the embedding table
  bool sees_ahead = false;                                   // sliding layers: rows of a picture see later rows of it
  // The tokens for one row of a picture, sound or film. Their embedding is that of the padding token, until a tower's
  // row replaces it.
  std::vector<int32_t> soft_tokens;
  int32_t padding = 0;
};

// One layer, with the values of its kind (full or sliding).
struct Layer {
  uint32_t index = 0;
  bool sliding = false;
  uint32_t window = 0;  // 0: sees every position
  uint32_t head_dim = 0;
  uint32_t kv_heads = 0;
  uint32_t feed_forward = 0;
  uint32_t kv_layer = 0;      // the layer whose keys and values it reads: itself, or the last owner of its kind
  bool owns_kv = true;        // kv_layer is the layer itself
  bool value_is_key = false;  // values are the keys before norm and rope
};
Layer layer_of(const Config& config, uint32_t index);
// The last layer of a kind that has keys and values of its own; none if no layer of that kind has.
std::optional<Layer> last_owner(const Config& config, bool sliding);

Result<Config> read_config(const Checkpoint& checkpoint, const SourceNames& names);
// Of the model that drafts for a Gemma 4 (gemma4_assistant.h). All its layers share keys that it has not.
Result<Config> read_assistant_config(const Checkpoint& checkpoint, const SourceNames& names);
std::vector<GgufMetadata::Entry> gguf_config(Config config);

}  // namespace sluice::gemma4
