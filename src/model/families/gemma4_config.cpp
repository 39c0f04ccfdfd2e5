#include "model/families/gemma4_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/limits.h"
#include "model/config.h"
#include "model/rope_config.h"

namespace sluice::gemma4 {
namespace {

// Values that only Hugging Face has, or that need work before they fit into Config.
struct Spelling {
  uint32_t full_kv_heads = 0;
  bool kv_heads_overridden = false;  // by per_layer_config
  bool k_eq_v = false, double_wide = false, with_experts = false;
  float rotated_share = 0, rope_factor = 0;
};

constexpr double kNotSaid = 0;  // head_dim of full layers, until per_layer_config is read

enum class Use : uint8_t { read_hugging_face, read_gguf, write_gguf };

std::vector<ConfigField> fields(Config& c, Spelling& s, Use use) {
  const auto when = [&](bool holds, double value) { return holds ? std::optional(value) : std::nullopt; };
  const std::optional<double> full_head = when(use == Use::read_hugging_face, kNotSaid);
  // A width of 0 is written, too, because older llama.cpp needs the key.
  const std::optional<double> no_embeddings = when(use != Use::write_gguf, 0);
  constexpr double kLeastEps = 1e-12, kMostTheta = 1e12, kMostCap = 1e6, kMostFactor = 1e6;
  std::array<const char*, 2> kinds = {"full_attention", "sliding_attention"};
  if (use == Use::read_gguf) kinds = {};  // GGUF: 0 or 1 for each layer, or one period
  // Hugging Face, GGUF, target, range, value when missing, words for 0 and 1
  return {
      {"num_hidden_layers", "block_count", &c.layers, 1, kMaxLayers},
      {"vocab_size", nullptr, &c.vocabulary, 1, kMaxVocabulary},
      {"max_position_embeddings", "context_length", &c.context, 1, kMaxContext},
      {"hidden_size", "embedding_length", &c.hidden, 1, kMaxWidth},
      {"intermediate_size", "feed_forward_length", &c.feed_forward, 1, kMaxWidth},
      {"use_double_wide_mlp", nullptr, &s.double_wide, 0, 1, 0},
      {"num_attention_heads", "attention.head_count", &c.heads, 1, kMaxHeads},
      {"num_key_value_heads", "attention.head_count_kv", &c.kv_heads, 1, kMaxHeads},
      {"num_global_key_value_heads", nullptr, &s.full_kv_heads, 0, kMaxHeads, 0},
      {"attention_k_eq_v", nullptr, &s.k_eq_v, 0, 1, 0},
      {"rope_parameters.full_attention.rope_theta", "rope.freq_base", &c.rope_theta, 1, kMostTheta},
      {"rope_parameters.full_attention.partial_rotary_factor", nullptr, &s.rotated_share, 0, 1, 1},
      {"rope_parameters.full_attention.factor", nullptr, &s.rope_factor, 1, kMostFactor, 1},
      {"rope_parameters.sliding_attention.rope_theta", "rope.freq_base_swa", &c.sliding_rope_theta, 1, kMostTheta, 1e4},
      {"rms_norm_eps", "attention.layer_norm_rms_epsilon", &c.eps, kLeastEps, 1},
      {"enable_moe_block", nullptr, &s.with_experts, 0, 1, 0},
      {"num_experts", "expert_count", &c.experts, 0, kMaxExperts, 0},
      {"top_k_experts", "expert_used_count", &c.experts_used, 0, kMaxExperts, 0},
      {"global_head_dim", "attention.key_length", &c.head_dim, 2, kMaxHeadDim, full_head},
      {nullptr, "attention.value_length", &c.value_dim, 2, kMaxHeadDim},
      {"final_logit_softcapping", "final_logit_softcapping", &c.softcap, 0, kMostCap, 30},
      {"sliding_window", "attention.sliding_window", &c.window, 1, kMaxContext},
      {"num_kv_shared_layers", "attention.shared_kv_layers", &c.shared_kv_layers, 0, kMaxLayers},
      {"hidden_size_per_layer_input", "embedding_length_per_layer_input", &c.per_layer_width, 0, kMaxWidth,
       no_embeddings},
      {"layer_types",
       "attention.sliding_window_pattern",
       &c.sliding,
       0,
       use == Use::read_gguf ? kMaxLayers : 1.0,
       {},
       kinds},
      {"head_dim", "attention.key_length_swa", &c.sliding_head_dim, 2, kMaxHeadDim},
      {nullptr, "attention.value_length_swa", &c.sliding_value_dim, 2, kMaxHeadDim},
      {"moe_intermediate_size", "expert_feed_forward_length", &c.expert_width, 0, kMaxWidth, 0},
      {nullptr, "rope.dimension_count", &c.rope_dim, 2, kMaxHeadDim},
      {nullptr, "rope.dimension_count_swa", &c.sliding_rope_dim, 2, kMaxHeadDim},
      {"tie_word_embeddings", nullptr, &c.tied, 0, 1, 1, {}, true},
  };
}

constexpr const char* kBidirectional = "use_bidirectional_attention";

bool is_vision(const Json* word) { return word != nullptr && word->is_string() && word->as_string() == "vision"; }

// Refuses values of fields that would need another program.
Status check_words(const ConfigReader& reader) {
  TRY_STATUS(reader.require_word("hidden_activation", "gelu_pytorch_tanh"));
  TRY_STATUS(reader.require_word(kBidirectional, "vision"));  // text stays causal
  TRY_STATUS(reader.require_word("rope_parameters.full_attention.rope_type", "proportional"));
  return reader.require_word("rope_parameters.sliding_attention.rope_type", "default");
}

// Since 5.15 transformers writes the values of full layers that differ from sliding layers for each layer:
//   "per_layer_config": {"04": {"head_dim": 512, "num_key_value_heads": 1}, "09": ...}
// The entries of all full layers must agree. Sliding layers have the values that are given for the whole model.
class LayerOverrides {
 public:
  LayerOverrides(const ConfigReader& reader, const Config& config) : reader_(reader), config_(config) {}

  Status read(const Json& layers) {
    if (!layers.is_object())
      return refuse("", cat("is ", printable(write_json(layers)), ": want an object with a member a layer"));
    std::vector<bool> seen(config_.layers);
    for (const auto& [name, members] : layers.as_object()) {
      const std::optional<uint32_t> layer = layer_of_name(name);
      if (!layer) return refuse("." + name, cat("is no layer: want numbers below ", config_.layers));
      if (seen[*layer]) return refuse("." + name, "is there twice: want one entry a layer");
      seen[*layer] = true;
      TRY_STATUS(read_layer("." + name, *layer, members));
    }
    return {};
  }

  // The value of full layers; none if it is the whole model's value. Fails when full layers disagree.
  Result<std::optional<uint32_t>> head_dim() const { return agreed(head_dim_); }
  Result<std::optional<uint32_t>> kv_heads() const { return agreed(kv_heads_); }

 private:
  struct Member {
    const char* name;
    double least, most;
    std::vector<std::optional<uint32_t>> of_layers;
  };

  Error refuse(const std::string& path, const std::string& text) const {
    return reader_.refuse(ErrorKind::invalid, kPath + printable(path), text);
  }

  std::optional<uint32_t> layer_of_name(const std::string& name) const {
    constexpr size_t kMostDigits = 8;
    const bool digits = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (name.empty() || name.size() > kMostDigits || !digits) return std::nullopt;
    uint32_t layer = 0;
    for (const char digit : name) layer = layer * 10 + static_cast<uint32_t>(digit - '0');
    return layer < config_.layers ? std::optional(layer) : std::nullopt;
  }

  Status read_layer(const std::string& path, uint32_t layer, const Json& members) {
    if (!members.is_object()) return refuse(path, cat("is ", printable(write_json(members)), ": want an object"));
    for (const auto& [name, value] : members.as_object()) {
      Member* const member = name == head_dim_.name ? &head_dim_ : name == kv_heads_.name ? &kv_heads_ : nullptr;
      const std::string here = cat(path, ".", name);
      if (member == nullptr) return refuse(here, cat("is not known: want ", head_dim_.name, " or ", kv_heads_.name));
      if (!value.is_integer() || value.as_number() < member->least || value.as_number() > member->most)
        return refuse(here, cat("is ", printable(write_json(value)), ": want ", member->least, " to ", member->most));
      const auto number = static_cast<uint32_t>(value.as_integer());
      const uint32_t of_all = member == &head_dim_ ? config_.sliding_head_dim : config_.kv_heads[layer];
      if (config_.sliding[layer] != 0 && number != of_all)
        return refuse(here, cat("is ", number, " in a sliding layer: want ", of_all, ", as for all"));
      member->of_layers[layer] = number;
    }
    return {};
  }

  Result<std::optional<uint32_t>> agreed(const Member& member) const {
    std::optional<uint32_t> first;
    for (uint32_t layer = 0, seen = 0; layer < config_.layers; ++layer) {
      if (config_.sliding[layer] != 0) continue;
      if (seen++ == 0) first = member.of_layers[layer];
      if (member.of_layers[layer] != first)
        return refuse("", cat("has another ", member.name, " for layer ", layer,
                              " than for full layers before: want one for all of them"));
    }
    return first;
  }

  static constexpr const char* kPath = "per_layer_config";

  const ConfigReader& reader_;
  const Config& config_;
  Member head_dim_{"head_dim", 2, kMaxHeadDim, std::vector<std::optional<uint32_t>>(config_.layers)};
  Member kv_heads_{"num_key_value_heads", 1, kMaxHeads, std::vector<std::optional<uint32_t>>(config_.layers)};
};

// A config.json may have both the fields from before 5.15 and per_layer_config. The older fields win.
Status heads_of_full_layers(const ConfigReader& reader, const std::vector<ConfigField>& table, Config& c, Spelling& s) {
  const Json* layers = reader.member("per_layer_config");
  const bool without = layers == nullptr || layers->is_null();
  if (without && c.head_dim == kNotSaid) return reader.complain(table, &c.head_dim, "is missing");
  if (without) return {};
  LayerOverrides overrides(reader, c);
  TRY_STATUS(overrides.read(*layers));
  TRY(const std::optional<uint32_t> head_dim, overrides.head_dim());
  TRY(const std::optional<uint32_t> kv_heads, overrides.kv_heads());
  if (c.head_dim == kNotSaid) c.head_dim = head_dim.value_or(c.sliding_head_dim);
  if (s.full_kv_heads == 0 && kv_heads) {
    s.full_kv_heads = *kv_heads;
    s.kv_heads_overridden = true;
  }
  return {};
}

void finish_hugging_face(Config& c, const Spelling& s) {
  if (!s.with_experts) c.experts = c.experts_used = c.expert_width = 0;
  c.value_is_key.assign(c.layers, 0);
  for (uint32_t i = 0; i < c.layers; ++i) {
    if (s.double_wide && i + c.shared_kv_layers >= c.layers) c.feed_forward[i] *= 2;
    if (c.sliding[i]) continue;
    c.value_is_key[i] = s.k_eq_v;
    if (s.full_kv_heads != 0 && (s.k_eq_v || s.kv_heads_overridden)) c.kv_heads[i] = s.full_kv_heads;
  }
  c.value_dim = c.rope_dim = c.head_dim;
  c.sliding_value_dim = c.sliding_rope_dim = c.sliding_head_dim;
  const auto turning = static_cast<size_t>(std::floor(static_cast<double>(s.rotated_share) * c.head_dim / 2));
  c.rope_factors.assign(c.head_dim / 2, kStillFactor);
  std::fill_n(c.rope_factors.begin(), turning, s.rope_factor);
}

// The key lists for each layer whether it is sliding, or is one number n as in Gemma 3: every n-th layer is full.
Status sliding_of_gguf(Config& c, const ConfigReader& reader) {
  constexpr const char* kKey = "attention.sliding_window_pattern";
  const GgufValue& value = *reader.key(kKey);
  if (!is_array(value) && element_type(value) != GgufType::boolean) {
    const uint32_t period = c.sliding[0];
    if (period == 0) return reader.refuse(ErrorKind::invalid, kKey, "is 0: want which layers are sliding");
    for (uint32_t i = 0; i < c.layers; ++i) c.sliding[i] = (i + 1) % period != 0;
  }
  const auto odd = std::ranges::find_if(c.sliding, [](uint32_t kind) { return kind > 1; });
  if (odd == c.sliding.end()) return {};
  return reader.refuse(ErrorKind::invalid, cat(kKey, "[", odd - c.sliding.begin(), "]"),
                       cat("is ", *odd, ": want true or false"));
}

// GGUF has no keys for two facts. A full layer without a value matrix takes its keys as values, and rows of pictures
// see ahead in the sizes without per-layer embeddings.
Status finish_gguf(Config& c, const Checkpoint& checkpoint, const SourceNames& names) {
  TRY_ASSIGN(c.vocabulary, gguf_vocabulary(checkpoint, names, c.hidden));
  c.sees_ahead = c.per_layer_width == 0;
  c.value_is_key.assign(c.layers, 0);
  c.scaled = std::ranges::any_of(
      names.all(), [](const auto& tensor) { return ends_with(tensor.first, ".layer_output_scale.weight"); });
  for (uint32_t i = 0; i < c.layers; ++i)
    c.value_is_key[i] = !c.sliding[i] && names.find(cat("blk.", i, ".attn_v.weight")) == nullptr &&
                        names.find(cat("blk.", i, ".attn_qkv.weight")) == nullptr;

  const StoredTensor* factors = names.find("rope_freqs.weight");
  const std::vector<int64_t> want = {c.head_dim / 2};
  if (factors == nullptr || factors->format != Format::f32 || factors->shape != want)
    return error(ErrorKind::invalid, checkpoint.path(), ": rope_freqs.weight is ",
                 factors == nullptr ? "missing" : cat(format_name(factors->format), " ", format_shape(factors->shape)),
                 ": want f32 ", format_shape(want));
  c.rope_factors.resize(c.head_dim / 2);
  std::vector<std::byte> room;
  const std::byte* const stored = factors->bytes.data().read(factors->bytes.size(), room);
  decode_row(Format::f32, stored, c.rope_factors.data(), c.rope_factors.size());
  for (const float factor : c.rope_factors)
    if (!(factor > 0.0f))
      return error(ErrorKind::invalid, checkpoint.path(), ": rope_freqs.weight holds ", factor,
                   ": want factors above 0");
  return {};
}

// YaRN stretches full layers only, because a sliding layer never looks further back than its window. A factor for cos
// and sin is refused, because its key does not tell for which kind of layer it is.
Status stretch_of_gguf(Config& c, const ConfigReader& reader) {
  TRY(const float magnitude, read_yarn(reader, rope_names(reader), c.rope_theta, c.context, c.yarn));
  if (magnitude == static_cast<float>(yarn_magnitude(static_cast<double>(c.yarn.factor)))) return {};
  return reader.refuse(ErrorKind::unsupported, "rope.scaling.attn_factor",
                       "is not 1: want none, since it does not say of which layers it is");
}

void add_soft_token(Config& c, int64_t id) {
  if (id >= 0 && id < c.vocabulary) c.soft_tokens.push_back(static_cast<int32_t>(id));
}

// A model without towers has no soft tokens: its config.json has no such ids.
void soft_tokens_of_hugging_face(Config& c, const Json& config) {
  for (const char* name : {"image_token_id", "audio_token_id", "video_token_id"}) {
    const Json* id = config.find(name);
    if (id != nullptr && id->is_integer()) add_soft_token(c, id->as_integer());
  }
  const Json* text = config.find("text_config");
  const Json* padding = text == nullptr ? nullptr : text->find("pad_token_id");
  if (padding != nullptr && padding->is_integer() && padding->as_integer() >= 0 && padding->as_integer() < c.vocabulary)
    c.padding = static_cast<int32_t>(padding->as_integer());
}

// GGUF has no keys for soft tokens, so they are found by their text.
void soft_tokens_of_gguf(Config& c, const Checkpoint& checkpoint) {
  const GgufValue* value = checkpoint.key("tokenizer.ggml.tokens");
  const auto* tokens = value == nullptr ? nullptr : std::get_if<GgufArray<std::string>>(value);
  if (tokens == nullptr) return;
  for (size_t id = 0; id < tokens->size(); ++id)
    for (const char* text : {"<|image|>", "<|audio|>", "<|video|>"})
      if ((*tokens)[id] == text) add_soft_token(c, static_cast<int64_t>(id));
  const auto padding = checkpoint.metadata().get_u32("tokenizer.ggml.padding_token_id");
  if (padding && *padding < c.vocabulary) c.padding = static_cast<int32_t>(*padding);
}

// Without a width in the configuration the per-layer table would be ignored, so such a file is refused.
Status check_embeddings(const ConfigReader& reader, const std::vector<ConfigField>& table, Config& c,
                        const SourceNames& names) {
  const char* const embeddings = reader.is_gguf() ? "per_layer_token_embd.weight" : "embed_tokens_per_layer.weight";
  if (c.per_layer_width != 0 || names.find(embeddings) == nullptr) return {};
  return reader.complain(table, &c.per_layer_width, cat("is missing or 0: want the width of ", embeddings));
}

// Checks that concern more than the range of one field.
Status check(const ConfigReader& reader, const std::vector<ConfigField>& table, Config& c) {
  const auto refuse = [&](ConfigField::Target target, const auto&... text) {
    return reader.complain(table, target, cat(text...));
  };
  for (const uint32_t kv_heads : c.kv_heads)
    if (c.heads % kv_heads != 0)
      return refuse(&c.heads, "is ", c.heads, ": want a multiple of the ", kv_heads, " heads of keys and values");
  if (c.head_dim % 2 != 0) return refuse(&c.head_dim, "is ", c.head_dim, ": want an even number");
  if (c.sliding_head_dim % 2 != 0)
    return refuse(&c.sliding_head_dim, "is ", c.sliding_head_dim, ": want an even number");
  const std::pair<uint32_t*, uint32_t> twins[] = {{&c.value_dim, c.head_dim},
                                                  {&c.rope_dim, c.head_dim},
                                                  {&c.sliding_value_dim, c.sliding_head_dim},
                                                  {&c.sliding_rope_dim, c.sliding_head_dim}};
  for (const auto& [dim, twin] : twins)
    if (*dim != twin) return refuse(dim, "is ", *dim, ": want ", twin, ", the width of keys");
  if (c.experts != 0 && (c.experts_used == 0 || c.experts_used > c.experts))
    return refuse(&c.experts_used, "is ", c.experts_used, ": want 1 to ", c.experts);
  if (c.experts != 0 && c.expert_width == 0) return refuse(&c.expert_width, "is 0: want 1 to ", kMaxWidth);
  return {};
}

// Each layer without keys of its own must find some before it.
Status check_sharing(const ConfigReader& reader, const std::vector<ConfigField>& table, Config& c) {
  const auto refuse = [&](ConfigField::Target target, const auto&... text) {
    return reader.complain(table, target, cat(text...));
  };
  if (c.shared_kv_layers >= c.layers)
    return refuse(&c.shared_kv_layers, "is ", c.shared_kv_layers, ": want less than the ", c.layers, " layers");
  for (uint32_t i = 0; i < c.layers; ++i)
    if (layer_of(c, i).kv_layer == c.layers)
      return refuse(&c.shared_kv_layers, "is ", c.shared_kv_layers, ": want an earlier layer whose keys layer ", i,
                    " can share");
  return {};
}

}  // namespace

Layer layer_of(const Config& c, uint32_t index) {
  Layer layer;
  layer.index = index;
  layer.sliding = c.sliding[index] != 0;
  layer.window = layer.sliding ? c.window : 0;
  layer.head_dim = layer.sliding ? c.sliding_head_dim : c.head_dim;
  layer.kv_heads = c.kv_heads[index];
  layer.feed_forward = c.feed_forward[index];
  layer.value_is_key = c.value_is_key[index] != 0;
  const uint32_t owners = c.layers - c.shared_kv_layers;
  layer.owns_kv = index < owners;
  layer.kv_layer = index;
  if (layer.owns_kv) return layer;
  layer.kv_layer = c.layers;  // no such layer; check_sharing() refuses it
  for (uint32_t i = 0; i < owners; ++i)
    if (c.sliding[i] == c.sliding[index]) layer.kv_layer = i;
  return layer;
}

std::optional<Layer> last_owner(const Config& c, bool sliding) {
  for (uint32_t i = c.layers - c.shared_kv_layers; i-- > 0;)
    if ((c.sliding[i] != 0) == sliding) return layer_of(c, i);
  return std::nullopt;
}

namespace {

Result<Config> read(const Checkpoint& checkpoint, const SourceNames& names, const char* architecture, bool drafts) {
  Config config;
  Spelling spelling;
  const bool gguf = checkpoint.dialect() == Dialect::gguf;
  const std::vector<ConfigField> table = fields(config, spelling, gguf ? Use::read_gguf : Use::read_hugging_face);
  TRY(const ConfigReader reader, ConfigReader::open(checkpoint, architecture));
  TRY_STATUS(check_words(reader));
  TRY_STATUS(reader.read(table, config.layers));
  if (gguf) {
    TRY_STATUS(sliding_of_gguf(config, reader));
    TRY_STATUS(finish_gguf(config, checkpoint, names));
    TRY_STATUS(stretch_of_gguf(config, reader));
    soft_tokens_of_gguf(config, checkpoint);
  } else {
    TRY_STATUS(heads_of_full_layers(reader, table, config, spelling));
    finish_hugging_face(config, spelling);
    config.sees_ahead = is_vision(reader.member(kBidirectional));
    soft_tokens_of_hugging_face(config, *checkpoint.document("config.json"));
  }
  TRY_STATUS(check_embeddings(reader, table, config, names));
  TRY_STATUS(check(reader, table, config));
  if (drafts)
    config.shared_kv_layers = config.layers;
  else
    TRY_STATUS(check_sharing(reader, table, config));
  return config;
}

}  // namespace

Result<Config> read_config(const Checkpoint& checkpoint, const SourceNames& names) {
  return read(checkpoint, names, kArchitecture, /*drafts=*/false);
}

Result<Config> read_assistant_config(const Checkpoint& checkpoint, const SourceNames& names) {
  return read(checkpoint, names, kAssistantArchitecture, /*drafts=*/true);
}

std::vector<GgufMetadata::Entry> gguf_config(Config config) {
  Spelling spelling;
  std::vector<GgufMetadata::Entry> keys = gguf_keys(fields(config, spelling, Use::write_gguf), kArchitecture);
  const auto magnitude = static_cast<float>(yarn_magnitude(static_cast<double>(config.yarn.factor)));
  std::ranges::move(yarn_keys(config.yarn, magnitude, kArchitecture), std::back_inserter(keys));
  return keys;
}

}  // namespace sluice::gemma4
