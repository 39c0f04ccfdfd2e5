// DeepSeek-V3's configuration, read from config.json or GGUF keys and checked. deepseek_v3_config.cpp reads and writes
// it; the program in deepseek_v3.cpp shows what the fields mean.
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
  uint32_t query_rank = 0;  // width of the query latent; 0: one matrix computes queries from the residual stream
  uint32_t latent = 0;      // width of the latent that a position caches
  uint32_t nope = 0;        // elements of a head's key that do not turn
  uint32_t rope = 0;        // elements that do turn; in keys all heads share them
  uint32_t value_width = 0;
  bool key_transposed = false;  // the file stores k_b as [latent, nope] for each head
  bool joint_in_gguf = false;   // a GGUF file with kv_b in one piece, which is then used; k_b and v_b are ignored
  float eps = 0, rope_theta = 0;
  Yarn yarn;                      // factor 1: none
  float yarn_log_multiplier = 0;  // 0.1 mscale_all_dim
  float rope_magnitude = 1;       // of cos and sin
  uint32_t dense_layers = 0;      // the first layers have no experts
  uint32_t feed_forward = 0;      // width in dense layers
  uint32_t experts = 0, experts_used = 0, expert_width = 0, shared_experts = 0;
  uint32_t groups = 1, groups_used = 1;
  bool groups_assumed = false;  // the file has no keys for groups
  float routed_scale = 1;
  bool normalise = true;
  uint32_t draft_layers = 0;  // layers for multi-token prediction, behind the others
  bool draft_head = false;    // the checkpoint has the first draft layer
};

Result<Config> read_config(const Checkpoint& checkpoint, const SourceNames& names);
std::vector<GgufMetadata::Entry> gguf_config(const Config& config);

}  // namespace sluice::deepseek_v3
