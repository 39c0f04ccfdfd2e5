#include "model/families/qwen3_5_config.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "model/config.h"
#include "model/rope_config.h"

namespace sluice::qwen3_5 {
namespace {

constexpr uint32_t kNotSaid = 2;  // in `recurrent`, until reading is finished

// Values that only one dialect has, or that need work before they fit into Config.
struct Spelling {
  float rotated_share = 0;
  bool gated = true;
  uint32_t inner = 0;  // elements of all value heads of a delta net
};

std::vector<ConfigField> fields(Config& c, Spelling& s, const RopeNames& rope) {
  constexpr double kLeastEps = 1e-12, kMostTheta = 1e12;
  // Hugging Face, GGUF, target, range, value when missing, words for 0 and 1
  return {
      {"num_hidden_layers", "block_count", &c.layers, 1, kMaxLayers},
      {nullptr, "nextn_predict_layers", &c.prediction_layers, 0, kMaxLayers, 0},
      {"vocab_size", nullptr, &c.vocabulary, 1, kMaxVocabulary},
      {"max_position_embeddings", "context_length", &c.context, 1, kMaxContext},
      {"hidden_size", "embedding_length", &c.hidden, 1, kMaxWidth},
      {"intermediate_size", "feed_forward_length", &c.feed_forward, 0, kMaxWidth, 0},
      {"num_attention_heads", "attention.head_count", &c.heads, 1, kMaxHeads},
      {"num_key_value_heads", "attention.head_count_kv", &c.kv_heads, 0, kMaxHeads},
      {"head_dim", "attention.key_length", &c.head_dim, 2, kMaxHeadDim},
      {nullptr, "attention.value_length", &c.value_dim, 2, kMaxHeadDim},
      {rope.theta, "rope.freq_base", &c.rope_theta, 1, kMostTheta},
      {rope.rotated_share, nullptr, &s.rotated_share, 0, 1, 0.25},
      {nullptr, "rope.dimension_count", &c.rope_dim, 2, kMaxHeadDim},
      {"rms_norm_eps", "attention.layer_norm_rms_epsilon", &c.eps, kLeastEps, 1},
      {"full_attention_interval", "full_attention_interval", &c.full_interval, 1, kMaxLayers, 4},
      {"layer_types",
       "attention.recurrent_layers",
       &c.recurrent,
       0,
       1,
       kNotSaid,
       {"full_attention", "linear_attention"}},
      {"attn_output_gate", nullptr, &s.gated, 0, 1, 1},
      {"linear_conv_kernel_dim", "ssm.conv_kernel", &c.conv_taps, 2, kMaxConvTaps},
      {"linear_num_key_heads", "ssm.group_count", &c.delta_key_heads, 1, kMaxHeads},
      {"linear_num_value_heads", "ssm.time_step_rank", &c.delta_value_heads, 1, kMaxHeads},
      {"linear_key_head_dim", "ssm.state_size", &c.delta_key_dim, 1, kMaxHeadDim},
      {"linear_value_head_dim", nullptr, &c.delta_value_dim, 1, kMaxHeadDim},
      {nullptr, "ssm.inner_size", &s.inner, 1, kMaxWidth},
      {"num_experts", "expert_count", &c.experts, 0, kMaxExperts, 0},
      {"num_experts_per_tok", "expert_used_count", &c.experts_used, 0, kMaxExperts, 0},
      {"moe_intermediate_size", "expert_feed_forward_length", &c.expert_width, 0, kMaxWidth, 0},
      {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", &c.shared_width, 0, kMaxWidth, 0},
      {"tie_word_embeddings", nullptr, &c.tied, 0, 1, 0, {}, true},
  };
}

void sections_of_hugging_face(Config& c, const ConfigReader& reader, const RopeNames& names) {
  const Json* rope = reader.member(names.parameters);
  const Json* sections = rope == nullptr ? nullptr : rope->find("mrope_section");
  if (sections == nullptr || !sections->is_array() || sections->as_array().size() != 3) return;
  for (size_t i = 0; i < 3; ++i) {
    const Json& pairs = sections->as_array()[i];
    if (pairs.is_integer() && pairs.as_integer() >= 0 && pairs.as_integer() <= c.head_dim)
      c.rope_sections[i] = static_cast<int32_t>(pairs.as_integer());
  }
}

// MLX writes the taps of a convolution as [channels, taps, 1], transformers as [channels, 1, taps]. Only MLX's
// converter writes the first form, and it also adds 1 to the norms.
bool is_of_mlx(const Config& c, const SourceNames& names) {
  for (uint32_t i = 0; i < c.layers; ++i)
    if (const StoredTensor* taps = names.find(cat("layers.", i, ".linear_attn.conv1d.weight")))
      return taps->shape.size() == 3 && taps->shape.back() == 1;
  return false;
}

void finish_hugging_face(Config& c, const Spelling& s, const SourceNames& names) {
  c.norms_are_factors = is_of_mlx(c, names);
  c.value_dim = c.head_dim;
  c.rope_dim = static_cast<uint32_t>(std::floor(static_cast<double>(s.rotated_share) * c.head_dim));
}

Status finish_gguf(Config& c, const Spelling& s, const Checkpoint& checkpoint, const SourceNames& names) {
  TRY_ASSIGN(c.vocabulary, gguf_vocabulary(checkpoint, names, c.hidden));
  c.tied = names.find("output.weight") == nullptr;
  c.key_heads = KeyHeads::tiled;
  c.delta_value_dim = s.inner / c.delta_value_heads;
  return {};
}

// Checks that concern more than the range of one field. GGUF counts the layers of multi-token prediction as blocks.
Status check(const ConfigReader& reader, const std::vector<ConfigField>& table, Config& c, Spelling& s, bool gguf) {
  const auto refuse = [&](ConfigField::Target target, const auto&... text) {
    return reader.complain(table, target, cat(text...));
  };
  if (c.prediction_layers >= c.layers)
    return refuse(&c.prediction_layers, "is ", c.prediction_layers, ": want less than the ", c.layers, " blocks");
  if (!s.gated) return refuse(&s.gated, "is false: want true");
  for (size_t i = 0; i < c.kv_heads.size(); ++i)
    if (c.recurrent[i] == 0 && (c.kv_heads[i] == 0 || c.heads % c.kv_heads[i] != 0))
      return refuse(&c.heads, "is ", c.heads, ": want a multiple of the ", c.kv_heads[i],
                    " heads of keys and values of layer ", i);
  if (c.value_dim != c.head_dim)
    return refuse(&c.value_dim, "is ", c.value_dim, ": want ", c.head_dim, ", the width of keys");
  if (c.rope_dim % 2 != 0 || c.rope_dim < 2 || c.rope_dim > c.head_dim)
    return refuse(gguf ? ConfigField::Target(&c.rope_dim) : &c.head_dim, "turns ", c.rope_dim, " of ", c.head_dim,
                  " elements: want an even number of them");
  if (c.delta_value_heads % c.delta_key_heads != 0)
    return refuse(&c.delta_value_heads, "is ", c.delta_value_heads, ": want a multiple of the ", c.delta_key_heads,
                  " key heads");
  if (gguf && s.inner != c.delta_values())
    return refuse(&s.inner, "is ", s.inner, ": want a multiple of the ", c.delta_value_heads, " value heads");
  if (c.experts != 0 && (c.experts_used == 0 || c.experts_used > c.experts))
    return refuse(&c.experts_used, "is ", c.experts_used, ": want 1 to ", c.experts);
  if (c.experts != 0 && c.expert_width == 0) return refuse(&c.expert_width, "is 0: want 1 to ", kMaxWidth);
  if (c.experts != 0 && c.shared_width == 0) return refuse(&c.shared_width, "is 0: want 1 to ", kMaxWidth);
  if (c.experts == 0 && c.feed_forward == 0) return refuse(&c.feed_forward, "is 0: want 1 to ", kMaxWidth);
  return {};
}

}  // namespace

Result<Config> read_config(const Checkpoint& checkpoint, const SourceNames& names, const char* architecture) {
  Config config;
  Spelling spelling;
  const bool gguf = checkpoint.dialect() == Dialect::gguf;
  config.rope_sections = {11, 11, 10, 0};
  TRY(const ConfigReader reader, ConfigReader::open(checkpoint, architecture));
  const RopeNames& rope = rope_names(reader);
  const std::vector<ConfigField> table = fields(config, spelling, rope);
  TRY_STATUS(reader.require_word("hidden_act", "silu"));
  TRY_STATUS(reader.read(table, config.layers));
  TRY(config.rope_magnitude, read_yarn(reader, rope, config.rope_theta, config.context, config.yarn));
  for (uint32_t i = 0; i < config.layers; ++i)
    if (config.recurrent[i] == kNotSaid) config.recurrent[i] = (i + 1) % config.full_interval != 0;
  if (gguf) {
    TRY_STATUS(finish_gguf(config, spelling, checkpoint, names));
  } else {
    finish_hugging_face(config, spelling, names);
    sections_of_hugging_face(config, reader, rope);
  }
  TRY_STATUS(check(reader, table, config, spelling, gguf));
  config.layers -= config.prediction_layers;
  const bool mtp = names.find("mtp.fc.weight") != nullptr;
  const bool nextn = gguf && names.find(cat("blk.", config.layers, ".nextn.eh_proj.weight")) != nullptr;
  config.draft_head = nextn || mtp;
  config.mtp_names = gguf && mtp && !nextn;
  if (!config.draft_head) return config;
  config.recurrent.resize(config.layers);
  config.kv_heads.resize(config.layers);
  config.recurrent.push_back(0);
  config.kv_heads.push_back(*std::ranges::max_element(config.kv_heads));
  return config;
}

std::vector<GgufMetadata::Entry> gguf_config(Config config, const char* architecture) {
  Spelling spelling{.inner = config.delta_values()};
  config.prediction_layers = config.draft_head ? 1 : 0;
  config.layers += config.prediction_layers;
  config.recurrent.resize(config.layers);
  config.kv_heads.resize(config.layers);
  const GgufArray<int32_t> sections(config.rope_sections.begin(), config.rope_sections.end());
  std::vector<GgufMetadata::Entry> keys = gguf_keys(fields(config, spelling, RopeNames{}), architecture);
  keys.push_back({cat(architecture, ".rope.dimension_sections"), sections});
  std::ranges::move(yarn_keys(config.yarn, config.rope_magnitude, architecture), std::back_inserter(keys));
  return keys;
}

}  // namespace sluice::qwen3_5
