// Small Gemma 4 checkpoints of any shape with pseudo-random weights, written as Hugging Face directories.
// Names and shapes are put down here after facts of the real checkpoints, not taken from the code under test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"

namespace sluice::tests {

struct TinyShape {
  std::string kinds = "ssf";  // of the layers: s sliding, f full
  int64_t vocabulary = 96, hidden = 32, heads = 4, kv_heads = 2, full_kv_heads = 0, head_dim = 16, full_head_dim = 32;
  int64_t feed_forward = 48, window = 8, shared_kv_layers = 0, per_layer_width = 0;
  int64_t experts = 0, experts_used = 0, expert_width = 0;
  bool k_eq_v = false, double_wide = false, tied = true;

  int64_t layers() const { return static_cast<int64_t>(kinds.size()); }
};

// E4B: per-layer embeddings, keys and values shared by the last layers of each kind. 12B: values from keys, one global
// head of keys and values. 26B-A4B: that, with experts.
inline TinyShape like_e4b() { return {.kinds = "ssfssfssf", .shared_kv_layers = 4, .per_layer_width = 8}; }
inline TinyShape like_12b() { return {.kinds = "sssssf", .full_kv_heads = 1, .k_eq_v = true}; }
inline TinyShape like_26b() {
  TinyShape shape = like_12b();
  shape.experts = 6, shape.experts_used = 2, shape.expert_width = 16;
  return shape;
}

inline Json tiny_config(const TinyShape& s) {
  Json::Array kinds;
  for (const char kind : s.kinds) kinds.emplace_back(kind == 's' ? "sliding_attention" : "full_attention");
  const Json ropes =
      Json::Object{{"full_attention",
                    Json::Object{{"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}, {"rope_type", "proportional"}}},
                   {"sliding_attention", Json::Object{{"rope_theta", 1e4}, {"rope_type", "default"}}}};
  const auto or_null = [](int64_t value) { return value == 0 ? Json() : Json(value); };
  const Json text = Json::Object{{"model_type", "gemma4_text"},
                                 {"attention_k_eq_v", s.k_eq_v},
                                 {"enable_moe_block", s.experts != 0},
                                 {"final_logit_softcapping", 30.0},
                                 {"global_head_dim", s.full_head_dim},
                                 {"head_dim", s.head_dim},
                                 {"hidden_activation", "gelu_pytorch_tanh"},
                                 {"hidden_size", s.hidden},
                                 {"hidden_size_per_layer_input", s.per_layer_width},
                                 {"intermediate_size", s.feed_forward},
                                 {"layer_types", std::move(kinds)},
                                 {"max_position_embeddings", 131072},
                                 {"moe_intermediate_size", or_null(s.expert_width)},
                                 {"num_attention_heads", s.heads},
                                 {"num_experts", or_null(s.experts)},
                                 {"num_global_key_value_heads", or_null(s.full_kv_heads)},
                                 {"num_hidden_layers", s.layers()},
                                 {"num_key_value_heads", s.kv_heads},
                                 {"num_kv_shared_layers", s.shared_kv_layers},
                                 {"rms_norm_eps", 1e-6},
                                 {"rope_parameters", ropes},
                                 {"sliding_window", s.window},
                                 {"tie_word_embeddings", s.tied},
                                 {"top_k_experts", or_null(s.experts_used)},
                                 {"use_bidirectional_attention", Json()},
                                 {"use_double_wide_mlp", s.double_wide},
                                 {"vocab_size", s.vocabulary}};
  return Json::Object{{"model_type", "gemma4"}, {"text_config", text}, {"eos_token_id", Json::Array{1, 16}}};
}

struct TinyTensor {
  std::string name;
  std::vector<int64_t> shape;
};

inline void add_tiny_layer(std::vector<TinyTensor>& out, const TinyShape& s, int64_t i) {
  const bool sliding = s.kinds[static_cast<size_t>(i)] == 's', shared = i >= s.layers() - s.shared_kv_layers;
  const int64_t dim = sliding ? s.head_dim : s.full_head_dim;
  const int64_t kv = !sliding && s.full_kv_heads != 0 ? s.full_kv_heads : s.kv_heads;
  const int64_t width = s.double_wide && shared ? 2 * s.feed_forward : s.feed_forward;
  const std::string layer = cat("model.language_model.layers.", i, ".");
  const auto add = [&](const char* name, std::vector<int64_t> shape) { out.push_back({layer + name, shape}); };
  add("self_attn.q_proj.weight", {s.heads * dim, s.hidden});
  add("self_attn.q_norm.weight", {dim});
  if (!shared) {
    add("self_attn.k_proj.weight", {kv * dim, s.hidden});
    add("self_attn.k_norm.weight", {dim});
    if (sliding || !s.k_eq_v) add("self_attn.v_proj.weight", {kv * dim, s.hidden});
  }
  add("self_attn.o_proj.weight", {s.hidden, s.heads * dim});
  add("mlp.gate_proj.weight", {width, s.hidden});
  add("mlp.up_proj.weight", {width, s.hidden});
  add("mlp.down_proj.weight", {s.hidden, width});
  for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight",
                           "pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"})
    add(norm, {s.hidden});
  add("layer_scalar", {1});
  if (s.per_layer_width != 0) {
    add("per_layer_input_gate.weight", {s.per_layer_width, s.hidden});
    add("per_layer_projection.weight", {s.hidden, s.per_layer_width});
    add("post_per_layer_input_norm.weight", {s.hidden});
  }
  if (s.experts == 0) return;
  add("router.scale", {s.hidden});
  add("router.per_expert_scale", {s.experts});
  add("router.proj.weight", {s.experts, s.hidden});
  add("experts.gate_up_proj", {s.experts, 2 * s.expert_width, s.hidden});
  add("experts.down_proj", {s.experts, s.hidden, s.expert_width});
  for (const char* norm : {"post_feedforward_layernorm_1.weight", "post_feedforward_layernorm_2.weight",
                           "pre_feedforward_layernorm_2.weight"})
    add(norm, {s.hidden});
}

inline std::vector<TinyTensor> tiny_tensors(const TinyShape& s) {
  std::vector<TinyTensor> out = {{"model.language_model.embed_tokens.weight", {s.vocabulary, s.hidden}},
                                 {"model.language_model.norm.weight", {s.hidden}}};
  if (s.per_layer_width != 0) {
    const int64_t all = s.layers() * s.per_layer_width;
    out.push_back({"model.language_model.embed_tokens_per_layer.weight", {s.vocabulary, all}});
    out.push_back({"model.language_model.per_layer_model_projection.weight", {all, s.hidden}});
    out.push_back({"model.language_model.per_layer_projection_norm.weight", {s.per_layer_width}});
  }
  if (!s.tied) out.push_back({"lm_head.weight", {s.vocabulary, s.hidden}});
  for (int64_t i = 0; i < s.layers(); ++i) add_tiny_layer(out, s, i);
  return out;
}

// Vectors lie around 1, matrices around 0 with a spread of 1 / sqrt(columns): no row of numbers dies out.
inline std::vector<float> tiny_values(const TinyTensor& tensor, uint64_t& state) {
  size_t count = 1;
  for (const int64_t n : tensor.shape) count *= static_cast<size_t>(n);
  const bool vector = tensor.shape.size() <= 1;
  const float spread = vector ? 0.5f : 1.7f / std::sqrt(static_cast<float>(tensor.shape.back()));
  std::vector<float> values(count);
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float uniform = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1.0f;
    value = (vector ? 1.0f : 0.0f) + spread * uniform;
  }
  return values;
}

// An F32 safetensors file.
inline std::string tiny_safetensors(const std::vector<TinyTensor>& tensors, uint64_t seed = 42) {
  Json::Object header;
  std::string data;
  uint64_t state = seed;
  for (const TinyTensor& tensor : tensors) {
    const std::vector<float> values = tiny_values(tensor, state);
    const auto begin = static_cast<int64_t>(data.size());
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    Json::Array shape(tensor.shape.begin(), tensor.shape.end());
    header.emplace_back(tensor.name,
                        Json::Object{{"dtype", "F32"},
                                     {"shape", std::move(shape)},
                                     {"data_offsets", Json::Array{begin, static_cast<int64_t>(data.size())}}});
  }
  const std::string text = write_json(header);
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + data;
}

// A directory of its own for each test, removed at its end.
class TinyModel : public ::testing::Test {
 protected:
  TinyModel() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = cat(::testing::TempDir(), "sluice_", ::getpid(), "_", test->test_suite_name(), "_", test->name());
    std::filesystem::create_directories(folder_);
  }
  ~TinyModel() override { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return join_path(folder_, name); }
  void put(std::string_view name, std::string_view content) const { EXPECT_TRUE(write_file(path(name), content).ok()); }
  void put_model(const Json& config, const std::vector<TinyTensor>& tensors) const {
    put("config.json", write_json(config));
    put("model.safetensors", tiny_safetensors(tensors));
  }
  void put_model(const TinyShape& shape) const { put_model(tiny_config(shape), tiny_tensors(shape)); }

  std::string folder_;
};

}  // namespace sluice::tests
