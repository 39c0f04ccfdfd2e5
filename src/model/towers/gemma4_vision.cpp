// Gemma 4's vision tower: an encoder over patches of 16 x 16 pixels. A block of 3 x 3 patches becomes one row of the
// text. Source: transformers modeling_gemma4.py (5.17.0), Gemma4VisionModel, and llama.cpp's mmproj files and Ollama
// for GGUF names.
//
// Unlike the text's layers: every patch sees all others. Rope turns the first half of a head by the patch's column and
// the second half by its row. Before the layers, a learned vector for the column and one for the row are added. An
// output row is the sum of nine patches times the square root of the width. Some checkpoints clamp the input and the
// output of linear layers.
//
// Patches are ordered by blocks of 3 x 3, so that pooling adds neighbouring rows.

#include "model/towers/gemma4_vision.h"

#include <cmath>

#include "base/limits.h"
#include "model/config.h"
#include "model/rope.h"
#include "model/towers/clipped_linear.h"
#include "model/towers/gemma4_media.h"
#include "model/towers/patches.h"

namespace sluice::gemma4 {
namespace {

constexpr uint32_t kUsualRows = 280;
constexpr float kUsualTheta = 100.0f;
constexpr uint32_t kLinears = 7, kBoundsOfLinear = 4;  // in each layer, in Ollama's order: q, k, v, o, gate, up, down

struct VisionConfig {
  uint32_t layers = 0, hidden = 0, feed_forward = 0, heads = 0, kv_heads = 0, head_dim = 0;
  uint32_t patch = 0, pooling = 0;  // side of a patch in pixels, side of a block in patches
  uint32_t positions = 0;           // rows of the position table for each direction
  uint32_t max_rows = 0;
  uint32_t text_hidden = 0;
  float eps = 0, theta = kUsualTheta;
  bool standardize = false, clipped = false, biased = false;
  bool clamps_in_one = false;  // Ollama stores all bounds in one tensor
  PixelOrder pixels = PixelOrder::pixels_first;

  uint32_t patches_of_row() const { return pooling * pooling; }
  uint32_t columns_of_patch() const { return patch * patch * kPixelColours; }
};

// --- config

std::vector<ConfigField> vision_fields(VisionConfig& c) {
  constexpr double kLeastEps = 1e-12, kMostTheta = 1e12;
  return {
      {"num_hidden_layers", "block_count", &c.layers, 1, kMaxLayers},
      {"hidden_size", "embedding_length", &c.hidden, 1, kMaxWidth},
      {"intermediate_size", "feed_forward_length", &c.feed_forward, 1, kMaxWidth},
      {"num_attention_heads", "attention.head_count", &c.heads, 1, kMaxHeads},
      {"num_key_value_heads", nullptr, &c.kv_heads, 0, kMaxHeads, 0},
      {"head_dim", nullptr, &c.head_dim, 0, kMaxHeadDim, 0},
      {"patch_size", "patch_size", &c.patch, 1, kMaxPatchSide},
      {"pooling_kernel_size", "projector.scale_factor", &c.pooling, 1, kMaxPatchSide, 3},
      {"position_embedding_size", nullptr, &c.positions, 1, kMaxPatchPositions},
      {"default_output_length", nullptr, &c.max_rows, 1, kMaxTowerRows, kUsualRows},
      {"rms_norm_eps", "attention.layer_norm_epsilon", &c.eps, kLeastEps, 1, 1e-6},
      {"rope_parameters.rope_theta", nullptr, &c.theta, 1, kMostTheta, static_cast<double>(kUsualTheta)},
      {"standardize", nullptr, &c.standardize, 0, 1, 0},
      {"use_clipped_linears", nullptr, &c.clipped, 0, 1, 0},
      {"attention_bias", nullptr, &c.biased, 0, 1, 0},
  };
}

// GGUF has no keys for these values. They are fixed, or follow from the names and shapes of tensors.
Status vision_of_gguf(VisionConfig& c, const Checkpoint& checkpoint, const SourceNames& names) {
  c.max_rows = kUsualRows;
  c.pixels = PixelOrder::colours_first;
  c.standardize = names.find("v.std_scale") != nullptr;
  c.clamps_in_one = names.find("v.clamp_data") != nullptr;
  c.clipped = c.clamps_in_one || names.find("v.blk.0.attn_q.input_min") != nullptr;
  const StoredTensor* table = names.find("v.position_embd.weight");
  if (table != nullptr && table->shape.size() == 3 && table->shape[1] > 0 && table->shape[1] <= kMaxPatchPositions) {
    c.positions = static_cast<uint32_t>(table->shape[1]);
    return {};
  }
  return error(ErrorKind::invalid, checkpoint.path(), ": v.position_embd.weight is ",
               table == nullptr ? "missing" : format_shape(table->shape), ": want two tables of positions");
}

Status check_vision(const ConfigReader& reader, const std::vector<ConfigField>& table, VisionConfig& c) {
  const auto refuse = [&](ConfigField::Target target, const auto&... text) {
    return reader.complain(table, target, cat(text...));
  };
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_dim % 4 != 0) return refuse(&c.head_dim, "is ", c.head_dim, ": want a multiple of 4");
  if (c.head_dim == 0 && c.hidden % (4 * c.heads) != 0)
    return refuse(&c.heads, "is ", c.heads, ": want a divisor of a fourth of the width ", c.hidden);
  if (c.head_dim == 0) c.head_dim = c.hidden / c.heads;
  if (c.heads % c.kv_heads != 0)
    return refuse(&c.heads, "is ", c.heads, ": want a multiple of the ", c.kv_heads, " heads of keys and values");
  if (c.biased) return refuse(&c.biased, "is true: want false");
  return {};
}

Result<VisionConfig> read_vision(const Checkpoint& checkpoint, const SourceNames& names, const std::string& keys) {
  VisionConfig config;
  const std::vector<ConfigField> table = vision_fields(config);
  TRY(const ConfigReader reader, ConfigReader::open(checkpoint, keys, "vision_config"));
  TRY_STATUS(reader.require_word("hidden_activation", "gelu_pytorch_tanh"));
  TRY_STATUS(reader.require_word("rope_parameters.rope_type", "default"));
  TRY_STATUS(reader.read(table, config.layers));
  if (reader.is_gguf()) TRY_STATUS(vision_of_gguf(config, checkpoint, names));
  config.max_rows = picture_rows(checkpoint, config.max_rows, config.patch * config.pooling);
  TRY_STATUS(check_vision(reader, table, config));
  return config;
}

// --- weights

void vision_layer_weights(WeightTable& t, const VisionConfig& c, uint32_t layer) {
  const std::string block = cat("v.blk.", layer, ".");
  t.section(cat("vision.layer.", layer, "."), cat("vision_tower.encoder.layers.", layer, "."), "");
  const auto norm = [&](const char* name, uint32_t width, const char* hugging_face, const char* gguf) {
    t.add(name, vector_of(width), hugging_face, (block + gguf).c_str());
  };
  uint32_t linears = layer * kLinears;
  const auto add_linear = [&](const char* name, WeightShape shape, const char* hugging_face, const char* gguf) {
    ClipBounds bounds{.stored = c.clipped};
    if (c.clamps_in_one)  // the tensor ends with the projector's bounds, which are not used
      bounds = {
          .stored = true, .first = linears * kBoundsOfLinear, .total = (c.layers * kLinears + 1) * kBoundsOfLinear};
    ++linears;
    add_clipped_linear(t, name, shape, hugging_face, block + gguf, bounds);
  };
  const uint32_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  norm("input_norm", c.hidden, "input_layernorm.weight", "ln1.weight");
  add_linear("q_proj", matrix(q, c.hidden), "self_attn.q_proj", "attn_q");
  add_linear("k_proj", matrix(kv, c.hidden), "self_attn.k_proj", "attn_k");
  add_linear("v_proj", matrix(kv, c.hidden), "self_attn.v_proj", "attn_v");
  add_linear("o_proj", matrix(c.hidden, q), "self_attn.o_proj", "attn_out");
  norm("q_norm", c.head_dim, "self_attn.q_norm.weight", "attn_q_norm.weight");
  norm("k_norm", c.head_dim, "self_attn.k_norm.weight", "attn_k_norm.weight");
  norm("post_attention_norm", c.hidden, "post_attention_layernorm.weight", "attn_post_norm.weight");
  norm("pre_feedforward_norm", c.hidden, "pre_feedforward_layernorm.weight", "ln2.weight");
  add_linear("gate_proj", matrix(c.feed_forward, c.hidden), "mlp.gate_proj", "ffn_gate");
  add_linear("up_proj", matrix(c.feed_forward, c.hidden), "mlp.up_proj", "ffn_up");
  add_linear("down_proj", matrix(c.hidden, c.feed_forward), "mlp.down_proj", "ffn_down");
  norm("post_feedforward_norm", c.hidden, "post_feedforward_layernorm.weight", "ffn_post_norm.weight");
  t.add_optional("layer_scalar", vector_of(1), {{"layer_scalar"}}, {{block + "out_scale.weight"}});
}

WeightTable vision_weights(const VisionConfig& c) {
  WeightTable t;
  t.beside_text();
  t.section("vision.", "vision_tower.", "v.");
  const SourceName pixels{.name = "patch_embd.weight", .shape = {c.hidden, kPixelColours, c.patch, c.patch}};
  t.add("patch_embed", matrix(c.hidden, c.columns_of_patch()), {{"patch_embedder.input_proj.weight"}}, {pixels});
  if (c.pixels == PixelOrder::pixels_first) t.gguf_heads(colours_behind(c.patch));
  const std::vector<int64_t> tables = {2, c.positions, c.hidden};
  t.add("position_embed", matrix(2 * c.positions, c.hidden),
        {{.name = "patch_embedder.position_embedding_table", .shape = tables}},
        {{.name = "position_embd.weight", .shape = tables}});
  for (uint32_t layer = 0; layer < c.layers; ++layer) vision_layer_weights(t, c, layer);
  t.section("vision.", "vision_tower.", "v.");
  if (c.standardize) {
    t.add("std_bias", vector_of(c.hidden), {{.name = "std_bias", .transform = Transform::minus}},
          {{.name = "std_bias", .transform = Transform::minus}});
    t.add("std_scale", vector_of(c.hidden), "std_scale", "std_scale");
  }
  t.section("vision.", "", "");
  t.add("projection", matrix(c.text_hidden, c.hidden), "embed_vision.embedding_projection.weight",
        "mm.input_projection.weight");
  return t;
}

// GGUF has no keys for the width of heads, for the number of key-value heads, and for theta, so unusual values are a
// problem.
ProjectorPart vision_projector(VisionConfig c) {
  ProjectorPart part{.keys = gguf_keys(vision_fields(c), "clip.vision")};
  add_picture_keys(part.keys, "gemma4v", c.text_hidden, picture_pixels(c.max_rows, c.patch * c.pooling));
  if (c.kv_heads != c.heads)
    part.problem = cat("there are ", c.kv_heads, " heads of keys and values: want ", c.heads);
  else if (c.head_dim * c.heads != c.hidden)
    part.problem = cat(c.heads, " heads are ", c.head_dim, " wide: want the width ", c.hidden, " together");
  else if (c.theta != kUsualTheta)
    part.problem = cat("rope theta is ", c.theta, ": want ", kUsualTheta);
  return part;
}

// --- program

constexpr ActivationKind kActivation = ActivationKind::gelu_tanh;

class VisionProgram {
 public:
  VisionProgram(Recorder& recorder, const VisionConfig& config, const BoundWeights& weights)
      : r_(recorder), c_(config), weights_(weights) {}

  void record();

 private:
  Value input(const char* name, uint32_t width, Element element);
  RopeId rope_by(uint32_t axis, Value coordinates);
  Value layer(uint32_t index, Value x);
  Value attention_block(const WeightScope& w, Value x);
  Value feed_forward_block(const WeightScope& w, Value x);
  Value turned(Value x) const { return rope(rope(x, by_column_), by_row_, c_.head_dim / 2); }

  Recorder& r_;
  const VisionConfig& c_;
  const BoundWeights& weights_;
  RopeId by_column_ = kNone, by_row_ = kNone;
  Value first_, last_;
};

Value VisionProgram::input(const char* name, uint32_t width, Element element) {
  const Extent patches{.symbol = Symbol::media_rows, .ratio = c_.patches_of_row()};
  return r_.input(name, {.extent = patches, .width = width, .element = element});
}

RopeId VisionProgram::rope_by(uint32_t axis, Value coordinates) {
  const std::vector<float> frequencies = inverse_frequencies(c_.theta, c_.head_dim / 2);
  return r_.rope_table({.inverse_frequencies = frequencies,
                        .axes = std::vector<uint32_t>(frequencies.size(), axis),
                        .coordinates = coordinates.id});
}

void VisionProgram::record() {
  const WeightScope w(r_, weights_, "vision.");
  const Value patches = input("patches", c_.columns_of_patch(), Element::f32);
  const Value positions = input("positions", 2, Element::i32);  // rows of the position table
  const Value coordinates = input("coordinates", 2, Element::i32);
  first_ = input("first", 1, Element::i32);
  last_ = input("last", 1, Element::i32);
  by_column_ = rope_by(0, coordinates);
  by_row_ = rope_by(1, coordinates);

  Value x = linear(patches, w["patch_embed"]);
  x = add(x, pool(embed(positions, w["position_embed"], 1.0f), 1.0f));
  r_.name(x, "vision.embed");
  for (uint32_t i = 0; i < c_.layers; ++i) {
    r_.begin_layer(static_cast<int32_t>(i));
    x = layer(i, x);
    r_.name(x, cat("vision.layer.", i));
  }
  r_.begin_layer(-1);
  const double root = std::sqrt(static_cast<double>(c_.hidden));
  x = pool(fold(x, c_.patches_of_row()), static_cast<float>(root / c_.patches_of_row()));
  if (c_.standardize) x = scale(add(x, w["std_bias"]), w["std_scale"]);
  r_.name(x, "vision.pooled");
  x = linear(rms_norm(x, c_.eps), w["projection"]);
  r_.name(x, "vision.soft_tokens");
  r_.output(x, "rows");
}

Value VisionProgram::layer(uint32_t index, Value x) {
  const WeightScope w(r_, weights_, cat("vision.layer.", index, "."));
  x = add(x, rms_norm(attention_block(w, rms_norm(x, w["input_norm"], c_.eps)), w["post_attention_norm"], c_.eps));
  const Value y = feed_forward_block(w, rms_norm(x, w["pre_feedforward_norm"], c_.eps));
  x = add(x, rms_norm(y, w["post_feedforward_norm"], c_.eps));
  return w.has("layer_scalar") ? scale(x, w["layer_scalar"]) : x;
}

Value VisionProgram::feed_forward_block(const WeightScope& w, Value x) {
  if (!c_.clipped) return gated_mlp(x, w["gate_proj"], w["up_proj"], w["down_proj"], kActivation);
  const Value gate = clipped_linear(w, "gate_proj", x);
  const Value up = clipped_linear(w, "up_proj", x);
  return clipped_linear(w, "down_proj", gated_activation(gate, up, kActivation));
}

Value VisionProgram::attention_block(const WeightScope& w, Value x) {
  if (!c_.clipped) r_.begin_block(BlockKind::qkv);
  Value q = clipped_linear(w, "q_proj", x);
  Value k = clipped_linear(w, "k_proj", x);
  Value v = clipped_linear(w, "v_proj", x);
  if (!c_.clipped) r_.end_block();
  q = turned(rms_norm(heads(q, c_.heads), w["q_norm"], c_.eps));
  k = turned(rms_norm(heads(k, c_.kv_heads), w["k_norm"], c_.eps));
  v = rms_norm(heads(v, c_.kv_heads), c_.eps);
  const Value a = attention(q, {k, v}, {.scale = 1.0f, .first = first_, .last = last_});
  return clipped_linear(w, "o_proj", flatten(a));
}

// --- pictures

Result<TowerInputs> prepare(const VisionConfig& c, const Picture& picture, const PictureOptions& options) {
  const uint32_t most = options.max_rows == 0 ? c.max_rows : options.max_rows;
  TRY(const Picture resized, resized_picture(picture, c.patch * c.pooling, most, Resizing::pillow));
  const uint32_t columns = resized.width / c.patch, rows = resized.height / c.patch;
  if (columns > c.positions || rows > c.positions)
    return error(ErrorKind::invalid, "picture: is ", columns, " x ", rows, " patches: want at most ", c.positions,
                 " in each direction");
  const std::vector<PatchPlace> places = patch_places(columns, rows, c.pooling);
  std::vector<uint32_t> coordinates, positions;
  for (const PatchPlace& place : places) {
    coordinates.insert(coordinates.end(), {place.x, place.y});
    positions.insert(positions.end(), {place.x, c.positions + place.y});
  }
  const auto count = static_cast<uint32_t>(places.size());
  TowerInputs inputs{.rows = count / c.patches_of_row()};
  // Not a list in braces, which would copy the patches.
  inputs.inputs.push_back({"patches", cut_patches(resized, places, c.patch, c.pixels, byte_values(2.0f, -1.0f))});
  inputs.inputs.push_back({"positions", std::move(positions)});
  inputs.inputs.push_back({"coordinates", std::move(coordinates)});
  inputs.inputs.push_back({"first", std::vector<uint32_t>(count, 0)});
  inputs.inputs.push_back({"last", std::vector<uint32_t>(count, count - 1)});
  return inputs;
}

}  // namespace

std::optional<FamilyProgram> vision_tower(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden) {
  const std::string keys = tower_keys(checkpoint, "vision", "block_count");
  const bool gguf = checkpoint.dialect() == Dialect::gguf;
  if (gguf ? checkpoint.key(keys + ".block_count") == nullptr : tower_section(checkpoint, "vision_config") == nullptr)
    return std::nullopt;
  FamilyProgram tower{.kind = ProgramKind::vision, .weights = {}, .record = {}};
  Result<VisionConfig> read = read_vision(checkpoint, names, keys);
  if (!read) {
    tower.problem = std::move(read).error();
    return tower;
  }
  VisionConfig config = *std::move(read);
  config.text_hidden = hidden;
  tower.weights = vision_weights(config);
  tower.projector = vision_projector(config);
  tower.record = [config](Recorder& recorder, const BoundWeights&, const BoundWeights& own, const TextOptions&) {
    VisionProgram(recorder, config, own).record();
  };
  tower.prepare_picture = [config](const Picture& picture, const PictureOptions& options) {
    return prepare(config, picture, options);
  };
  tower.most_rows = [config](const PictureOptions& options) { return most_rows(options, config.max_rows); };
  const FilmNumbers film = film_numbers(checkpoint);
  tower.prepare_frames = [config, film](std::span<const Picture> frames, const FilmOptions& options) {
    return prepare(config, frames[0], {.max_rows = frame_rows(film, options)});
  };
  tower.film = film_rules(film);
  tower.tokens = tower_tokens(checkpoint, "image");
  tower.summary = cat(config.layers, config.layers == 1 ? " layer of " : " layers of ", config.hidden, ", up to ",
                      config.max_rows, " rows a picture");
  return tower;
}

}  // namespace sluice::gemma4
