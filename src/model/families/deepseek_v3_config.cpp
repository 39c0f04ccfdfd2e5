#include "model/families/deepseek_v3_config.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "model/config.h"
#include "model/rope_config.h"

namespace sluice::deepseek_v3 {
namespace {

constexpr const char* kArchitecture = "deepseek2";
constexpr uint32_t kSigmoid = 2;  // a value of expert_gating_func

// V3 and R1 choose experts from 4 of 8 groups. llama.cpp's converter wrote no keys for groups before September 2025, so
// such a file is recognised by its number of experts, which no other model has.
constexpr uint32_t kExpertsOfV3 = 256, kUsedByV3 = 8, kGroupsOfV3 = 8, kGroupsUsedByV3 = 4;

// Values that only one dialect has, or that need work before they fit into Config.
struct Spelling {
  uint32_t experts_every = 1;                           // Hugging Face; layers
  bool attention_bias = false;                          //
  float mscale = 0, mscale_all_dim = 0;                 //
  float attention_factor = 0;                           // 0: missing
  std::vector<uint32_t> expert_widths = {};             // one a layer; 0: the layer has no experts
  uint32_t gating = 0, kv_heads = 0;                    // GGUF, like all below
  uint32_t key_length = 0, value_length = 0;            // of a cached position
  uint32_t head_key_length = 0, head_value_length = 0;  // of a head; 0: the file has kv_b in one piece
};

std::vector<ConfigField> fields(Config& c, Spelling& s, const RopeNames& rope, Dialect dialect) {
  constexpr double kLeastEps = 1e-12, kMostTheta = 1e12, kMostFactor = 1e6, kMostScale = 1e6;
  constexpr double kLeastBeta = 1e-6, kMostBeta = 1e6;
  // A missing field means true in transformers and false in GGUF, whose writers leave out a key that is false.
  const double normalise = dialect == Dialect::gguf ? 0 : 1;
  const double least_groups = dialect == Dialect::gguf ? 0 : 1;  // llama.cpp writes 0 for no groups
  // Hugging Face, GGUF, target, range, value when missing
  return {
      {"num_hidden_layers", "block_count", &c.layers, 1, kMaxLayers},
      {"vocab_size", "vocab_size", &c.vocabulary, 1, kMaxVocabulary},
      {"max_position_embeddings", "context_length", &c.context, 1, kMaxContext},
      {"hidden_size", "embedding_length", &c.hidden, 1, kMaxWidth},
      {"intermediate_size", "feed_forward_length", &c.feed_forward, 1, kMaxWidth},
      {"num_attention_heads", "attention.head_count", &c.heads, 1, kMaxHeads},
      {nullptr, "attention.head_count_kv", &s.kv_heads, 1, kMaxHeads},
      {"attention_bias", nullptr, &s.attention_bias, 0, 1, 0},
      {rope.theta, "rope.freq_base", &c.rope_theta, 1, kMostTheta},
      {"rms_norm_eps", "attention.layer_norm_rms_epsilon", &c.eps, kLeastEps, 1},
      {"q_lora_rank", "attention.q_lora_rank", &c.query_rank, 0, kMaxWidth, 0},
      {"kv_lora_rank", "attention.kv_lora_rank", &c.latent, 1, kMaxHeadDim},
      {nullptr, "attention.key_length", &s.key_length, 1, kMaxHeadDim},
      {nullptr, "attention.value_length", &s.value_length, 1, kMaxHeadDim},
      {nullptr, "attention.key_length_mla", &s.head_key_length, 0, kMaxHeadDim, 0},
      {nullptr, "attention.value_length_mla", &s.head_value_length, 0, kMaxHeadDim, 0},
      {"qk_nope_head_dim", nullptr, &c.nope, 1, kMaxHeadDim},
      {"qk_rope_head_dim", "rope.dimension_count", &c.rope, 2, kMaxHeadDim},
      {"v_head_dim", nullptr, &c.value_width, 1, kMaxHeadDim},
      {rope.factor, "rope.scaling.factor", &c.yarn.factor, 1, kMostFactor, 1},
      {rope.original, "rope.scaling.original_context_length", &c.yarn.original_context, 0, kMaxContext, 0},
      {rope.beta_fast, "rope.scaling.yarn_beta_fast", &c.yarn.beta_fast, kLeastBeta, kMostBeta, 32},
      {rope.beta_slow, "rope.scaling.yarn_beta_slow", &c.yarn.beta_slow, kLeastBeta, kMostBeta, 1},
      {rope.attention_factor, nullptr, &s.attention_factor, 0, kMostScale, 0},
      {rope.mscale, nullptr, &s.mscale, 0, kMostScale, 0},
      {rope.mscale_all_dim, nullptr, &s.mscale_all_dim, 0, kMostScale, 0},
      {nullptr, "rope.scaling.yarn_log_multiplier", &c.yarn_log_multiplier, 0, kMostScale, 0},
      {nullptr, "rope.scaling.attn_factor", &c.rope_magnitude, 0, kMostScale, 1},
      {"first_k_dense_replace", "leading_dense_block_count", &c.dense_layers, 0, kMaxLayers, 0},
      {"moe_layer_freq", nullptr, &s.experts_every, 1, 1, 1},
      {"n_routed_experts", "expert_count", &c.experts, 1, kMaxExperts},
      {"num_experts_per_tok", "expert_used_count", &c.experts_used, 1, kMaxExperts},
      {"moe_intermediate_size", "expert_feed_forward_length", &s.expert_widths, 0, kMaxWidth},
      {"n_shared_experts", "expert_shared_count", &c.shared_experts, 0, kMaxExperts, 0},
      {nullptr, "expert_gating_func", &s.gating, 1, 4, 1},
      {"n_group", "expert_group_count", &c.groups, least_groups, kMaxExperts, 1},
      {"topk_group", "expert_group_used_count", &c.groups_used, least_groups, kMaxExperts, 1},
      {"routed_scaling_factor", "expert_weights_scale", &c.routed_scale, 0, kMostScale, 1},
      {"norm_topk_prob", "expert_weights_norm", &c.normalise, 0, 1, normalise},
      {"num_nextn_predict_layers", "nextn_predict_layers", &c.draft_layers, 0, kMaxLayers, 0},
  };
}

// Refuses values of fields that would need another program.
Status check_words(const ConfigReader& reader, const RopeNames& rope, bool stretched) {
  TRY_STATUS(reader.require_word("hidden_act", "silu"));
  TRY_STATUS(reader.require_word("topk_method", "noaux_tc"));
  TRY_STATUS(reader.require_word("scoring_func", "sigmoid"));
  if (!stretched) return {};
  TRY_STATUS(reader.require_word(rope.type, "yarn"));
  return reader.require_word(rope.old_type, "yarn");
}

void finish_hugging_face(Config& c, const Spelling& s, const SourceNames& names) {
  c.key_transposed = names.find("layers.0.self_attn.embed_q.weight") != nullptr;
  const auto factor = static_cast<double>(c.yarn.factor);
  const auto mscale = static_cast<double>(s.mscale), all = static_cast<double>(s.mscale_all_dim);
  c.yarn_log_multiplier = static_cast<float>(0.1 * all);
  const double both = mscale != 0 && all != 0 ? yarn_magnitude(factor, mscale) / yarn_magnitude(factor, all) : 0;
  c.rope_magnitude = static_cast<float>(both != 0 ? both : yarn_magnitude(factor));
  if (factor > 1 && s.attention_factor != 0) c.rope_magnitude = s.attention_factor;
}

void groups_of_gguf(Config& c, const Spelling& s, const ConfigReader& reader) {
  const bool silent = reader.key("expert_group_count") == nullptr && reader.key("expert_group_used_count") == nullptr;
  c.groups_assumed = silent && s.gating == kSigmoid && c.experts == kExpertsOfV3 && c.experts_used == kUsedByV3;
  if (c.groups_assumed) {
    c.groups = kGroupsOfV3;
    c.groups_used = kGroupsUsedByV3;
  }
  c.groups = std::max(c.groups, 1u);
  c.groups_used = std::max(c.groups_used, 1u);
}

// Files with kv_b split give the lengths of a cached position and of a head; files with kv_b in one piece give only
// those of a head. The first files of ik_llama.cpp have both forms, with k_b as one matrix for all heads; for them kv_b
// is used.
void finish_gguf(Config& c, const Spelling& s, const SourceNames& names) {
  const uint32_t key = s.head_key_length != 0 ? s.head_key_length : s.key_length;
  c.nope = key > c.rope ? key - c.rope : 0;  // refused by check()
  c.value_width = s.head_key_length != 0 ? s.head_value_length : s.value_length;
  if (c.yarn.original_context == 0) c.yarn.original_context = c.context;
  const StoredTensor* const split = names.find("blk.0.attn_k_b.weight");
  const bool joint = names.find("blk.0.attn_kv_b.weight") != nullptr;
  const std::vector<int64_t> by_head = {c.heads, c.latent, c.nope};
  c.joint_in_gguf = joint && (split == nullptr || split->shape != by_head);
  c.key_transposed = split != nullptr && !c.joint_in_gguf;
  c.layers -= c.draft_layers < c.layers ? c.draft_layers : 0;
}

// All layers with experts must have one expert width, also the layers of multi-token prediction behind the others.
Status expert_width(const ConfigReader& reader, const std::vector<ConfigField>& table, Config& c, Spelling& s) {
  const size_t first = c.dense_layers;
  if (first >= s.expert_widths.size()) return {};  // no experts, or refused by check()
  c.expert_width = s.expert_widths[first];
  const auto other = std::ranges::find_if(s.expert_widths.begin() + first, s.expert_widths.end(),
                                          [&](uint32_t width) { return width != c.expert_width; });
  if (c.expert_width == 0)
    return reader.complain(table, &s.expert_widths, cat("is 0 for layer ", first, ": want 1 to ", kMaxWidth));
  if (other == s.expert_widths.end()) return {};
  return reader.complain(table, &s.expert_widths,
                         cat("is ", *other, " for layer ", other - s.expert_widths.begin(), ": want ", c.expert_width,
                             ", as for layer ", first));
}

// Checks that concern more than the range of one field.
Status check(const ConfigReader& reader, const std::vector<ConfigField>& table, Config& c, Spelling& s,
             Dialect dialect) {
  const auto refuse = [&](ConfigField::Target target, const auto&... text) {
    return reader.complain(table, target, cat(text...));
  };
  if (s.attention_bias) return refuse(&s.attention_bias, "is true: want false");
  if (dialect == Dialect::gguf && s.gating != kSigmoid)
    return refuse(&s.gating, "is ", s.gating, ": want ", kSigmoid, ", sigmoid");
  if (dialect == Dialect::gguf && c.draft_layers >= c.layers + c.draft_layers)
    return refuse(&c.draft_layers, "is ", c.draft_layers, ": want less than all layers");
  if (c.nope == 0) {
    uint32_t& length = s.head_key_length != 0 ? s.head_key_length : s.key_length;
    return refuse(&length, "is ", length, ": want more than the ", c.rope, " elements that turn");
  }
  if (c.value_width == 0) return refuse(&s.head_value_length, "is 0: want 1 to ", kMaxHeadDim);
  if (c.rope % 2 != 0) return refuse(&c.rope, "is ", c.rope, ": want an even number");
  if (c.yarn.factor > 1 && c.yarn.original_context == 0)
    return refuse(&c.yarn.original_context, "is missing or 0: want the context before it was stretched");
  if (c.yarn.factor > 1 && !(c.rope_theta > 1))
    return refuse(&c.rope_theta, "is ", c.rope_theta, ": want more than 1 where positions are stretched");
  if (c.dense_layers > c.layers) return refuse(&c.dense_layers, "is ", c.dense_layers, ": want at most ", c.layers);
  if (c.experts_used > c.experts) return refuse(&c.experts_used, "is ", c.experts_used, ": want at most ", c.experts);
  if (c.experts % c.groups != 0)
    return refuse(&c.groups, "is ", c.groups, ": want a divisor of the ", c.experts, " experts");
  if (c.groups_used > c.groups) return refuse(&c.groups_used, "is ", c.groups_used, ": want at most ", c.groups);
  return {};
}

}  // namespace

Result<Config> read_config(const Checkpoint& checkpoint, const SourceNames& names) {
  Config config;
  Spelling spelling;
  TRY(const ConfigReader reader, ConfigReader::open(checkpoint, kArchitecture));
  const RopeNames& rope = rope_names(reader);
  const Dialect dialect = checkpoint.dialect();
  const std::vector<ConfigField> table = fields(config, spelling, rope, dialect);
  TRY_STATUS(reader.read(table, config.layers));
  if (dialect == Dialect::gguf) {
    TRY(const bool stretched, gguf_asks_for_yarn(reader));
    if (!stretched) config.yarn.factor = 1;
  }
  TRY_STATUS(check_words(reader, rope, config.yarn.factor > 1));
  TRY_STATUS(expert_width(reader, table, config, spelling));
  if (dialect == Dialect::gguf) {
    groups_of_gguf(config, spelling, reader);
    finish_gguf(config, spelling, names);
  } else {
    finish_hugging_face(config, spelling, names);
  }
  TRY_STATUS(check(reader, table, config, spelling, dialect));
  const std::string join = dialect == Dialect::gguf ? cat("blk.", config.layers, ".nextn.eh_proj.weight")
                                                    : cat("layers.", config.layers, ".eh_proj.weight");
  config.draft_head = config.draft_layers > 0 && names.find(join) != nullptr;
  return config;
}

// The keys that llama.cpp writes for a file with kv_b split.
std::vector<GgufMetadata::Entry> gguf_config(const Config& config) {
  Config c = config;
  c.draft_layers = c.draft_head ? 1 : 0;
  c.layers += c.draft_layers;
  Spelling s{.expert_widths = std::vector<uint32_t>(c.layers, c.expert_width),
             .gating = kSigmoid,
             .kv_heads = 1,
             .key_length = c.latent + c.rope,
             .value_length = c.latent,
             .head_key_length = c.nope + c.rope,
             .head_value_length = c.value_width};
  std::vector<GgufMetadata::Entry> keys = gguf_keys(fields(c, s, RopeNames{}, Dialect::gguf), kArchitecture);
  if (c.yarn.factor > 1) keys.push_back({cat(kArchitecture, ".rope.scaling.type"), std::string("yarn")});
  return keys;
}

}  // namespace sluice::deepseek_v3
