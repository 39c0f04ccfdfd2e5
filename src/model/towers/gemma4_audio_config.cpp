#include "model/towers/gemma4_audio_config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/limits.h"
#include "media/mel.h"
#include "model/towers/clipped_linear.h"
#include "model/towers/gemma4_media.h"

namespace sluice::gemma4 {
namespace {

static_assert(kBands == kMelBands);

// Fields whose values the program assumes. Other values are refused.
struct AudioSpelling {
  uint32_t chunk = 0, left = 0, right = 0;
};

std::vector<ConfigField> audio_fields(AudioConfig& c, AudioSpelling& s) {
  constexpr double kLeastEps = 1e-12, kMostCap = 1e6;
  return {
      {"num_hidden_layers", "block_count", &c.layers, 1, kMaxLayers},
      {"hidden_size", "embedding_length", &c.hidden, 4, kMaxWidth},
      {"num_attention_heads", "attention.head_count", &c.heads, 1, kMaxHeads},
      {"output_proj_dims", nullptr, &c.encoded, 1, kMaxWidth},
      {"conv_kernel_size", "conv_kernel_size", &c.kernel, 1, kMaxPatchSide, 5},
      {"rms_norm_eps", "attention.layer_norm_epsilon", &c.eps, kLeastEps, 1, 1e-6},
      {"attention_logit_cap", nullptr, &c.softcap, 1e-3, kMostCap, 50},
      {"residual_weight", nullptr, &c.residual, -1, 1, 0.5},
      {"use_clipped_linears", nullptr, &c.clipped, 0, 1, 0},
      {"attention_chunk_size", nullptr, &s.chunk, 1, kMaxContext, 12},
      {"attention_context_left", nullptr, &s.left, 1, kMaxContext, 13},
      {"attention_context_right", nullptr, &s.right, 0, kMaxContext, 0},
  };
}

Status channels_of_hugging_face(AudioConfig& c, const ConfigReader& reader) {
  const Json* channels = reader.member("subsampling_conv_channels");
  const bool two = channels != nullptr && channels->is_array() && channels->as_array().size() == 2;
  for (size_t i = 0; two && i < 2; ++i) {
    const Json& one = channels->as_array()[i];
    if (one.is_integer() && one.as_integer() > 0 && one.as_integer() <= kMaxWidth)
      c.channels[i] = static_cast<uint32_t>(one.as_integer());
  }
  if (c.channels[0] > 0 && c.channels[1] > 0) return {};
  return reader.refuse(ErrorKind::invalid, "subsampling_conv_channels",
                       cat("is ", channels == nullptr ? "missing" : printable(write_json(*channels)),
                           ": want two numbers of 1 to ", kMaxWidth));
}

// GGUF has no keys for some widths, so they are read from the shapes of tensors.
Status shapes_of_gguf(AudioConfig& c, const Checkpoint& checkpoint, const SourceNames& names) {
  c.of_ollama = names.find("mm.a.fc.weight") != nullptr;
  c.clipped = names.find("a.blk.0.attn_q.input_min") != nullptr;
  const auto rows_of = [&](const char* name) -> Result<uint32_t> {
    const StoredTensor* tensor = names.find(name);
    const int64_t rows = tensor == nullptr || tensor->shape.empty() ? 0 : tensor->shape[0];
    if (rows > 0 && rows <= kMaxWidth) return static_cast<uint32_t>(rows);
    return error(ErrorKind::invalid, checkpoint.path(), ": ", name, " is ",
                 tensor == nullptr ? "missing" : format_shape(tensor->shape), ": want 1 to ", kMaxWidth, " rows");
  };
  TRY_ASSIGN(c.channels[0], rows_of("a.conv1d.0.weight"));
  TRY_ASSIGN(c.channels[1], rows_of("a.conv1d.1.weight"));
  TRY_ASSIGN(c.encoded, rows_of(c.of_ollama ? "mm.a.fc.weight" : "a.pre_encode.out.weight"));
  return {};
}

// --- weights

void audio_feed_forward_weights(WeightTable& t, const AudioConfig& c, const std::string& block, int which) {
  const std::string name = cat("feed_forward", which), suffix = which == 1 ? "" : "_1";
  const ClipBounds bounds{.stored = c.clipped};
  const auto norm = [&](const char* norm_name, const char* hugging_face, const char* gguf) {
    t.add(cat(name, ".", norm_name).c_str(), vector_of(c.hidden), cat(name, ".", hugging_face, ".weight").c_str(),
          cat(block, gguf, suffix, ".weight").c_str());
  };
  norm("norm", "pre_layer_norm", "ffn_norm");
  add_clipped_linear(t, name + ".up", matrix(4 * c.hidden, c.hidden), name + ".ffw_layer_1",
                     cat(block, "ffn_up", suffix), bounds);
  add_clipped_linear(t, name + ".down", matrix(c.hidden, 4 * c.hidden), name + ".ffw_layer_2",
                     cat(block, "ffn_down", suffix), bounds);
  norm("post_norm", "post_layer_norm", "ffn_post_norm");
}

void audio_attention_weights(WeightTable& t, const AudioConfig& c, const std::string& block) {
  const ClipBounds bounds{.stored = c.clipped};
  const char* const pre_norm = c.of_ollama ? "ln1.weight" : "attn_pre_norm.weight";
  const char* const post_norm = c.of_ollama ? "ln2.weight" : "attn_post_norm.weight";
  const char* const relative = c.of_ollama ? "linear_pos.weight" : "attn_k_rel.weight";
  t.add("pre_attention_norm", vector_of(c.hidden), "norm_pre_attn.weight", (block + pre_norm).c_str());
  for (const auto& [name, gguf] : {std::pair("q_proj", "attn_q"), {"k_proj", "attn_k"}, {"v_proj", "attn_v"}})
    add_clipped_linear(t, name, matrix(c.hidden, c.hidden), cat("self_attn.", name), block + gguf, bounds);
  t.add("relative_k_proj", matrix(c.hidden, c.hidden), "self_attn.relative_k_proj.weight", (block + relative).c_str());
  t.add("per_dim_scale", vector_of(c.head_dim()),
        {{.name = "self_attn.per_dim_scale", .transform = Transform::softplus}},
        {{block + "per_dim_scale.weight"}, {block + "per_dim_scale"}});
  add_clipped_linear(t, "o_proj", matrix(c.hidden, c.hidden), "self_attn.post", block + "attn_out", bounds);
  t.add("post_attention_norm", vector_of(c.hidden), "norm_post_attn.weight", (block + post_norm).c_str());
}

void audio_convolution_weights(WeightTable& t, const AudioConfig& c, const std::string& block) {
  const ClipBounds bounds{.stored = c.clipped};
  t.add("conv_pre_norm", vector_of(c.hidden), "lconv1d.pre_layer_norm.weight", (block + "conv_norm.weight").c_str());
  add_clipped_linear(t, "conv_in", matrix(2 * c.hidden, c.hidden), "lconv1d.linear_start", block + "conv_pw1", bounds);
  t.add("conv_taps", matrix(c.hidden, c.kernel), "lconv1d.depthwise_conv1d.weight", (block + "conv_dw.weight").c_str());
  t.add("conv_norm", vector_of(c.hidden), "lconv1d.conv_norm.weight", (block + "norm_conv.weight").c_str());
  add_clipped_linear(t, "conv_out", matrix(c.hidden, c.hidden), "lconv1d.linear_end", block + "conv_pw2", bounds);
}

void audio_layer_weights(WeightTable& t, const AudioConfig& c, uint32_t layer) {
  const std::string block = cat("a.blk.", layer, ".");
  t.section(cat("audio.layer.", layer, "."), cat("audio_tower.layers.", layer, "."), "");
  audio_feed_forward_weights(t, c, block, 1);
  audio_attention_weights(t, c, block);
  audio_convolution_weights(t, c, block);
  audio_feed_forward_weights(t, c, block, 2);
  t.add("norm", vector_of(c.hidden), "norm_out.weight",
        cat(block, c.of_ollama ? "layer_pre_norm" : "ln2", ".weight").c_str());
}

// --- weights that are computed

using Values = std::vector<float>;

Values decoded(const TensorSource& tensor) {
  const WeightShape& shape = tensor.shape;
  Values values(size_t{shape.rows} * shape.columns);
  for (uint32_t row = 0; row < shape.rows; ++row)
    decode_weight_row(tensor, 0, row, values.data() + size_t{row} * shape.columns);
  return values;
}

// Some taps of a convolution, ordered by tap and then channel, because a gather joins the rows of several taps. They
// are stored by channel and then tap.
Values taps_first(const TensorSource& stored, uint32_t channels, uint32_t first, uint32_t count) {
  const Values values = decoded(stored);
  const uint32_t taps = stored.shape.columns / channels;
  Values ordered;
  for (uint32_t out = 0; out < stored.shape.rows; ++out)
    for (uint32_t tap = first; tap < first + count; ++tap)
      for (uint32_t channel = 0; channel < channels; ++channel)
        ordered.push_back(values[(size_t{out} * channels + channel) * taps + tap]);
  return ordered;
}

// The taps of a depthwise convolution, ordered by tap and then channel.
Values depthwise_taps_first(const TensorSource& stored) {
  const Values values = decoded(stored);
  Values ordered;
  for (uint32_t tap = 0; tap < stored.shape.columns; ++tap)
    for (uint32_t channel = 0; channel < stored.shape.rows; ++channel)
      ordered.push_back(values[size_t{channel} * stored.shape.columns + tap]);
  return ordered;
}

// The scale of queries for each head: per_dim_scale / (square root of the head's width * ln 2).
Values q_scale(const AudioConfig& c, const TensorSource& per_dim_scale) {
  const double factor = 1.0 / (std::sqrt(static_cast<double>(c.head_dim())) * std::numbers::ln2);
  const Values of_head = decoded(per_dim_scale);
  Values scales;
  for (uint32_t head = 0; head < c.heads; ++head)
    for (const float value : of_head) scales.push_back(static_cast<float>(static_cast<double>(value) * factor));
  return scales;
}

// The encoding of each distance: sines and then cosines, at frequencies from 1 to 1 / 10000.
std::vector<double> encoded_distances(const AudioConfig& c) {
  const uint32_t frequencies = c.hidden / 2;
  const double step = std::log(10000.0) / std::max(frequencies - 1, 1u);
  std::vector<double> encoding;
  for (uint32_t i = 0; i < c.hidden; ++i)
    for (uint32_t distance = 0; distance < c.window; ++distance) {
      const double angle = distance * std::exp(-step * (i % frequencies));
      encoding.push_back(i < frequencies ? std::sin(angle) : std::cos(angle));
    }
  return encoding;
}

// The term that is added to a key, for each distance: relative_k_proj of the encoded distance.
Values relative_keys(const AudioConfig& c, const TensorSource& projection) {
  const std::vector<double> encoding = encoded_distances(c);
  Values keys(size_t{c.window} * c.hidden), row_values(c.hidden);
  std::vector<double> sums(c.window);
  for (uint32_t row = 0; row < c.hidden; ++row) {
    decode_weight_row(projection, 0, row, row_values.data());
    std::ranges::fill(sums, 0.0);
    for (uint32_t i = 0; i < c.hidden; ++i) {
      const auto value = static_cast<double>(row_values[i]);
      const double* const of_number = encoding.data() + size_t{i} * c.window;
      for (uint32_t distance = 0; distance < c.window; ++distance) sums[distance] += value * of_number[distance];
    }
    for (uint32_t distance = 0; distance < c.window; ++distance)
      keys[size_t{distance} * c.hidden + row] = static_cast<float>(sums[distance]);
  }
  return keys;
}

}  // namespace

Result<AudioConfig> read_audio(const Checkpoint& checkpoint, const SourceNames& names, const std::string& keys) {
  AudioConfig config;
  AudioSpelling spelling{.chunk = 12, .left = 13};
  const std::vector<ConfigField> table = audio_fields(config, spelling);
  TRY(const ConfigReader reader, ConfigReader::open(checkpoint, keys, "audio_config"));
  TRY_STATUS(reader.require_word("hidden_act", "silu"));
  TRY_STATUS(reader.read(table, config.layers));
  if (reader.is_gguf())
    TRY_STATUS(shapes_of_gguf(config, checkpoint, names));
  else
    TRY_STATUS(channels_of_hugging_face(config, reader));
  if (config.hidden % (2 * config.heads) != 0)
    return reader.complain(table, &config.heads,
                           cat("is ", config.heads, ": want a divisor of half the width ", config.hidden));
  if (spelling.left != spelling.chunk + 1)
    return reader.complain(table, &spelling.left,
                           cat("is ", spelling.left, ": want one more than the chunk of ", spelling.chunk));
  if (spelling.right != 0) return reader.complain(table, &spelling.right, cat("is ", spelling.right, ": want 0"));
  config.window = spelling.chunk;
  return config;
}

// GGUF has no keys for the window, the cap and the weight of residuals, so unusual values are a problem.
ProjectorPart audio_projector(AudioConfig c) {
  const AudioConfig usual;
  AudioSpelling spelling{.chunk = c.window, .left = c.window + 1};
  ProjectorPart part{.keys = gguf_keys(audio_fields(c, spelling), "clip.audio")};
  part.keys.insert(part.keys.end(), {{"clip.audio.projector_type", std::string("gemma4a")},
                                     {"clip.audio.feed_forward_length", 4 * c.hidden},
                                     {"clip.audio.projection_dim", c.text_hidden},
                                     {"clip.audio.num_mel_bins", kBands}});
  if (c.window != usual.window)
    part.problem = cat("frames see ", c.window, " frames: want ", usual.window);
  else if (c.softcap != usual.softcap)
    part.problem = cat("the attention cap is ", c.softcap, ": want ", usual.softcap);
  else if (c.residual != usual.residual)
    part.problem = cat("the residual weight is ", c.residual, ": want ", usual.residual);
  return part;
}

WeightTable audio_weights(const AudioConfig& c) {
  WeightTable t;
  t.beside_text();
  t.section("audio.", "audio_tower.subsample_conv_projection.", "a.");
  const uint32_t taps = kConvTaps * kConvTaps;
  const uint32_t in[] = {1, c.channels[0]};
  for (uint32_t i = 0; i < 2; ++i) {
    const std::vector<int64_t> shape = {c.channels[i], in[i], kConvTaps, kConvTaps};
    t.add(cat("subsample.", i, ".conv").c_str(), matrix(c.channels[i], in[i] * taps),
          {{.name = cat("layer", i, ".conv.weight"), .shape = shape}},
          {{.name = cat("conv1d.", i, ".weight"), .shape = shape}});
    t.add(cat("subsample.", i, ".norm").c_str(), vector_of(c.channels[i]), cat("layer", i, ".norm.weight").c_str(),
          cat("conv1d.", i, ".norm.weight").c_str());
  }
  t.add("subsample.projection", matrix(c.hidden, kBandsOfRow * c.channels[1]), "input_proj_linear.weight",
        c.of_ollama ? "pre_encode.out.weight" : "input_projection.weight");
  for (uint32_t layer = 0; layer < c.layers; ++layer) audio_layer_weights(t, c, layer);
  t.section("audio.", "", "");
  const std::string out = c.of_ollama ? "mm.a.fc" : "a.pre_encode.out";
  t.add("output_proj", matrix(c.encoded, c.hidden), "audio_tower.output_proj.weight", (out + ".weight").c_str());
  t.add("output_proj.bias", vector_of(c.encoded), "audio_tower.output_proj.bias", (out + ".bias").c_str());
  t.add_optional("soft_norm", vector_of(c.encoded), {}, {{"mm.a.soft_emb_norm.weight"}});
  t.add("projection", matrix(c.text_hidden, c.encoded), "embed_audio.embedding_projection.weight",
        "mm.a.input_projection.weight");
  return t;
}

void make_audio_weights(const AudioConfig& c, BoundWeights& weights) {
  const auto stored = [&](const std::string& name) { return weights.bound(name)->tensor; };
  const auto make = [&](const std::string& name, const WeightShape& shape, std::function<Values()> values) {
    weights.add_made(name, shape, std::move(values));
  };
  const uint32_t in = c.channels[0];
  const TensorSource second = stored(kSecondConv);
  for (uint32_t row = 0; row < kConvTaps; ++row)
    make(cat(kSecondConv, ".", row), matrix(c.channels[1], kConvTaps * in),
         [second, in, row] { return taps_first(second, in, row * kConvTaps, kConvTaps); });
  for (uint32_t i = 0; i < c.layers; ++i) {
    const std::string layer = cat("audio.layer.", i, ".");
    make(layer + "q_scale", vector_of(c.hidden), [c, of = stored(layer + "per_dim_scale")] { return q_scale(c, of); });
    make(layer + "relative", matrix(c.window, c.hidden),
         [c, of = stored(layer + "relative_k_proj")] { return relative_keys(c, of); });
    make(layer + "conv", vector_of(c.kernel * c.hidden),
         [of = stored(layer + "conv_taps")] { return depthwise_taps_first(of); });
  }
}

}  // namespace sluice::gemma4
