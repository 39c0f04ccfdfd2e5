// DeepSeek-V3's configuration, as config.json or GGUF keys give it, checked. Reading and writing:
// deepseek_v3_config.cpp; what the fields mean stands with the program in deepseek_v3.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/rope.h"
#include "model/weight_table.h"

namespace sluice::deepseek_v3 {

struct Config {
  uint32_t vocabulary = 0, layers = 0, context = 0, hidden = 0, heads = 0;
  uint32_t query_rank = 0;  // 0: queries are made of the stream by one matrix
  uint32_t latent = 0;      // width of what a position caches beside the shared key
  uint32_t nope = 0;        // elements of a head's key that do not turn,
  uint32_t rope = 0;        // and those that do, which all heads share
  uint32_t value_width = 0;
  bool key_transposed = false;  // the file holds the key's matrices as [latent, nope]
  bool joint_in_gguf = false;   // the file is GGUF and has kv_b in one piece, which is used whatever else it has
  float eps = 0, rope_theta = 0;
  Yarn yarn;                      // factor 1: none
  float yarn_log_multiplier = 0;  // 0.1 mscale_all_dim
  float rope_magnitude = 1;       // of cos and sin
  uint32_t dense_layers = 0;      // the first ones have no experts
  uint32_t feed_forward = 0;      // of those
  uint32_t experts = 0, experts_used = 0, expert_width = 0, shared_experts = 0;
  uint32_t groups = 1, groups_used = 1;
  bool groups_assumed = false;  // the file says nothing of groups
  float routed_scale = 1;
  bool normalise = true;
  uint32_t draft_layers = 0;  // behind the others, of multi-token prediction
  bool draft_head = false;    // the checkpoint has the first of them
};

Result<Config> read_config(const Checkpoint& checkpoint, const SourceNames& names);
std::vector<GgufMetadata::Entry> gguf_config(const Config& config);

}  // namespace sluice::deepseek_v3
