#include "model/shapes.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"

namespace sluice {
namespace {

constexpr const char* kGemma4 = R"({
  "model_type": "gemma4_text", "vocab_size": 262144, "max_position_embeddings": 131072, "head_dim": 256,
  "global_head_dim": 512, "rms_norm_eps": 1e-6, "final_logit_softcapping": 30.0, "pad_token_id": 0, "eos_token_id": 1,
  "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
  "rope_parameters": {
    "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
    "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}})";

constexpr const char* kGemma4Towers = R"({
  "vision_config": {
    "hidden_activation": "gelu_pytorch_tanh", "num_hidden_layers": 16, "hidden_size": 768, "intermediate_size": 3072,
    "num_attention_heads": 12, "head_dim": 64, "patch_size": 16, "pooling_kernel_size": 3,
    "position_embedding_size": 10240, "rms_norm_eps": 1e-6},
  "audio_config": {
    "hidden_act": "silu", "num_hidden_layers": 12, "hidden_size": 1024, "num_attention_heads": 8,
    "attention_chunk_size": 12, "attention_context_left": 13, "attention_context_right": 0, "conv_kernel_size": 5,
    "attention_logit_cap": 50.0, "gradient_clipping": 1e10, "residual_weight": 0.5, "output_proj_dims": 1536,
    "subsampling_conv_channels": [128, 32], "rms_norm_eps": 1e-6}})";

// That of the sizes from 9B on.
constexpr const char* kQwen35Towers = R"({
  "vision_config": {
    "hidden_act": "gelu_pytorch_tanh", "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
    "num_position_embeddings": 2304, "in_channels": 3, "patch_size": 16, "spatial_merge_size": 2,
    "temporal_patch_size": 2, "deepstack_visual_indexes": []},
  "vision_start_token_id": 248053, "vision_end_token_id": 248054, "image_token_id": 248056,
  "video_token_id": 248057})";

constexpr const char* kQwen35 = R"({
  "model_type": "qwen3_5_text", "vocab_size": 248320, "max_position_embeddings": 262144, "head_dim": 256,
  "rms_norm_eps": 1e-6, "hidden_act": "silu", "full_attention_interval": 4, "eos_token_id": 248044,
  "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
  "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                      "mrope_section": [11, 11, 10]}})";

constexpr const char* kQwen35Moe = R"({
  "model_type": "qwen3_5_moe_text", "vocab_size": 248320, "max_position_embeddings": 262144, "head_dim": 256,
  "rms_norm_eps": 1e-6, "hidden_act": "silu", "full_attention_interval": 4, "eos_token_id": 248044,
  "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
  "num_key_value_heads": 2, "tie_word_embeddings": false,
  "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                      "mrope_section": [11, 11, 10]}})";

constexpr const char* kDeepseekV3 = R"({
  "model_type": "deepseek_v3", "vocab_size": 129280, "max_position_embeddings": 163840, "hidden_size": 7168,
  "intermediate_size": 18432, "num_hidden_layers": 61, "num_attention_heads": 128, "rms_norm_eps": 1e-6,
  "hidden_act": "silu", "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "rope_theta": 10000, "eos_token_id": 1,
  "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
                   "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
  "first_k_dense_replace": 3, "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
  "n_shared_experts": 1, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "norm_topk_prob": true,
  "topk_method": "noaux_tc", "scoring_func": "sigmoid"})";

constexpr const char* kQwen36Moe35b = R"({
  "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16, "linear_num_value_heads": 32,
  "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
  "shared_expert_intermediate_size": 512})";
constexpr const char* kQwen36Dense27b = R"({
  "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64, "num_attention_heads": 24,
  "num_key_value_heads": 4, "linear_num_value_heads": 48, "tie_word_embeddings": false})";

constexpr ModelShape gemma4(const char* name, uint32_t full_every, const char* own, const char* towers = "{}") {
  return {name, kGemma4, own, full_every, "gemma4", "gemma4", towers};
}
constexpr ModelShape qwen(const char* name, const char* family, const char* own, const char* towers = "{}") {
  return {name, family, own, 0, "gpt2", "qwen35", towers};
}

constexpr ModelShape kShapes[] = {
    gemma4("gemma4-e2b", 5, R"({
      "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 35, "num_attention_heads": 8,
      "num_key_value_heads": 1, "sliding_window": 512, "num_kv_shared_layers": 20, "hidden_size_per_layer_input": 256,
      "use_double_wide_mlp": true})",
           kGemma4Towers),
    gemma4("gemma4-e4b", 6, R"({
      "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 42, "num_attention_heads": 8,
      "num_key_value_heads": 2, "sliding_window": 512, "num_kv_shared_layers": 18,
      "hidden_size_per_layer_input": 256})",
           kGemma4Towers),
    gemma4("gemma4-12b", 6, R"({
      "hidden_size": 3840, "intermediate_size": 15360, "num_hidden_layers": 48, "num_attention_heads": 16,
      "num_key_value_heads": 8, "num_global_key_value_heads": 1, "attention_k_eq_v": true, "sliding_window": 1024,
      "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0})"),
    gemma4("gemma4-26b-a4b", 6, R"({
      "hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 30, "num_attention_heads": 16,
      "num_key_value_heads": 8, "num_global_key_value_heads": 2, "attention_k_eq_v": true, "sliding_window": 1024,
      "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0, "enable_moe_block": true, "num_experts": 128,
      "top_k_experts": 8, "moe_intermediate_size": 704})"),
    gemma4("gemma4-31b", 6, R"({
      "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60, "num_attention_heads": 32,
      "num_key_value_heads": 16, "num_global_key_value_heads": 4, "attention_k_eq_v": true, "sliding_window": 1024,
      "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0})"),
    qwen("qwen3.5-0.8b", kQwen35, R"({
      "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24, "num_attention_heads": 8,
      "num_key_value_heads": 2, "linear_num_value_heads": 16, "tie_word_embeddings": true})"),
    qwen("qwen3.5-2b", kQwen35, R"({
      "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24, "num_attention_heads": 8,
      "num_key_value_heads": 2, "linear_num_value_heads": 16, "tie_word_embeddings": true})"),
    qwen("qwen3.5-4b", kQwen35, R"({
      "hidden_size": 2560, "intermediate_size": 9216, "num_hidden_layers": 32, "num_attention_heads": 16,
      "num_key_value_heads": 4, "linear_num_value_heads": 32, "tie_word_embeddings": true})"),
    qwen("qwen3.5-9b", kQwen35, R"({
      "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32, "num_attention_heads": 16,
      "num_key_value_heads": 4, "linear_num_value_heads": 32, "tie_word_embeddings": false})",
         kQwen35Towers),
    qwen("qwen3.5-27b", kQwen35, kQwen36Dense27b, kQwen35Towers),
    qwen("qwen3.6-27b", kQwen35, kQwen36Dense27b, kQwen35Towers),
    qwen("qwen3.5-35b-a3b", kQwen35Moe, kQwen36Moe35b, kQwen35Towers),
    qwen("qwen3.6-35b-a3b", kQwen35Moe, kQwen36Moe35b, kQwen35Towers),
    qwen("qwen3.5-122b-a10b", kQwen35Moe, R"({
      "hidden_size": 3072, "num_hidden_layers": 48, "num_attention_heads": 32, "linear_num_value_heads": 64,
      "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 1024,
      "shared_expert_intermediate_size": 1024})"),
    qwen("qwen3.5-397b-a17b", kQwen35Moe, R"({
      "hidden_size": 4096, "num_hidden_layers": 60, "num_attention_heads": 32, "linear_num_value_heads": 64,
      "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 1024,
      "shared_expert_intermediate_size": 1024})"),
    {"deepseek-v3", kDeepseekV3, "{}", 0, "gpt2", "deepseek-v3"},
};

constexpr const char* kLayers = "num_hidden_layers";
constexpr const char* kDenseLayers = "first_k_dense_replace";
constexpr const char* kExperts = "n_routed_experts";

Json* member(Json& config, std::string_view name) {
  for (auto& [key, value] : config.as_object())
    if (key == name) return &value;
  return nullptr;
}

int64_t number(Json& config, std::string_view name) {
  const Json* found = member(config, name);
  return found == nullptr ? 0 : found->as_integer();
}

void set(Json& config, const char* name, Json value) {
  if (Json* known = member(config, name); known != nullptr)
    *known = std::move(value);
  else
    config.add(name, std::move(value));
}

Json whole_config(const ModelShape& shape) {
  Result<Json> config = parse_json(shape.family, shape.name), own = parse_json(shape.own, shape.name);
  CHECK(config && own);
  for (Json::Member& field : own->as_object()) set(*config, field.first.c_str(), std::move(field.second));
  return *std::move(config);
}

// The share of layers that read keys and values of other layers stays the same, but at least one full layer keeps its
// own.
void cut_layers(const ModelShape& shape, Json& config, int64_t layers) {
  const int64_t all = number(config, kLayers), shared = number(config, "num_kv_shared_layers");
  set(config, kLayers, layers);
  if (shared != 0)
    set(config, "num_kv_shared_layers",
        std::clamp<int64_t>(layers * shared / all, 0, std::max<int64_t>(0, layers - shape.full_every)));
  if (shape.full_every == 0) return;
  Json::Array types;
  for (int64_t i = 0; i < layers; ++i)
    types.emplace_back((i + 1) % shape.full_every == 0 ? "full_attention" : "sliding_attention");
  set(config, "layer_types", std::move(types));
}

// Keeps the expert groups if each still has two experts and the used groups have enough experts to choose from.
void cut_experts(Json& config, int64_t experts) {
  const int64_t groups = number(config, "n_group"), used = number(config, "topk_group");
  const int64_t chosen = std::min(experts, number(config, "num_experts_per_tok"));
  set(config, kExperts, experts);
  set(config, "num_experts_per_tok", chosen);
  if (experts % groups == 0 && experts / groups >= 2 && experts / groups * used >= chosen) return;
  set(config, "n_group", 1);
  set(config, "topk_group", 1);
}

std::string known_shapes() {
  std::string names;
  for (const ModelShape& shape : kShapes) names += cat(names.empty() ? "" : ", ", shape.name);
  return names;
}

}  // namespace

Result<Json> config_with_towers(const ShapeConfig& shape) {
  Json config = shape.config;
  Result<Json> towers = parse_json(shape.shape->towers, shape.name);
  CHECK(towers);
  if (towers->as_object().empty())
    return error(ErrorKind::unsupported, "shape ", shape.name, ": its towers are not known: want another shape");
  for (Json::Member& tower : towers->as_object()) {
    if (tower.second.is_object() && tower.second.find("depth") != nullptr)
      set(tower.second, "out_hidden_size", number(config, "hidden_size"));
    set(config, tower.first.c_str(), std::move(tower.second));
  }
  return config;
}

std::span<const ModelShape> all_shapes() { return kShapes; }

Result<ShapeConfig> find_shape(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  const auto* shape = std::ranges::find_if(kShapes, [&](const ModelShape& s) { return s.name == parts[0]; });
  if (shape == std::end(kShapes))
    return error(ErrorKind::not_found, "shape ", printable(text), ": no such shape: want one of ", known_shapes());
  Json config = whole_config(*shape);
  constexpr const char* kCounts[] = {kLayers, kDenseLayers, kExperts};
  const size_t most = member(config, kDenseLayers) != nullptr ? std::size(kCounts) : 1;
  if (parts.size() > 1 + most)
    return error(ErrorKind::invalid, "shape ", printable(text), ": found ", parts.size() - 1, " numbers: want ",
                 shape->name, most == 1 ? "[:layers]" : "[:layers[:dense[:experts]]]");
  std::optional<int64_t> counts[std::size(kCounts)];
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const int64_t whole = number(config, kCounts[i]), least = i == 1 ? 0 : 1;
    const int64_t top = i == 1 ? std::min(whole, *counts[0]) : whole;
    counts[i] = parse_integer(parts[i + 1]);
    if (!counts[i] || *counts[i] < least || *counts[i] > top)
      return error(ErrorKind::invalid, "shape ", printable(text), ": found ", printable(parts[i + 1]), ": want ", least,
                   " to ", top,
                   i == 0   ? " layers"
                   : i == 1 ? " dense layers"
                            : " experts");
  }
  cut_layers(*shape, config, counts[0].value_or(number(config, kLayers)));
  if (most > 1)
    set(config, kDenseLayers, counts[1].value_or(std::min(number(config, kDenseLayers), number(config, kLayers))));
  if (counts[2]) cut_experts(config, *counts[2]);
  return ShapeConfig{std::string(text), shape, std::move(config)};
}

}  // namespace sluice
