// Qwen3.5's and Qwen3.6's vision tower: it turns a picture, or two frames of a film, into rows of the text. Source:
// transformers Qwen3_5VisionModel (5.17.0), and llama.cpp's mmproj files and Ollama for GGUF names.
//
// A patch has 16 x 16 pixels and two frames. The learned square table of positions is interpolated, so that it spans a
// picture of any size. Queries and keys turn by row (first half of the pairs) and by column (second half). Every patch
// sees all patches of its step; pairs of frames of a film do not see each other. The merger joins 2 x 2 patches into
// one row of the text. The merger's activation is the exact GELU, that of the layers is GELU's tanh form.
#include "model/towers/qwen3_5_vision.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model/rope.h"
#include "model/towers/qwen3_5_pictures.h"
#include "model/towers/qwen3_5_vision_config.h"

namespace sluice::qwen3_5 {
namespace {

// --- weights

// The names of a weight. `hugging_face` follows "visual.", or "vision_tower." in MLX's files. `gguf` has llama.cpp's
// name, then Ollama's.
struct Names {
  std::string hugging_face;
  std::vector<std::string> gguf;
};

void weight(WeightTable& t, const std::string& name, WeightShape shape, const Names& names, const char* suffix) {
  std::vector<SourceName> hugging_face, gguf;
  for (const char* prefix : {"visual.", "vision_tower."})
    hugging_face.push_back({.name = cat(prefix, names.hugging_face, suffix)});
  for (const std::string& one : names.gguf) gguf.push_back({.name = one + suffix});
  t.add(name.c_str(), shape, std::move(hugging_face), std::move(gguf));
}

void bias(WeightTable& t, const std::string& name, uint32_t columns, const Names& names) {
  weight(t, name + ".bias", vector_of(columns), names, ".bias");
}
void norm(WeightTable& t, const std::string& name, uint32_t columns, const Names& names) {
  weight(t, name, vector_of(columns), names, ".weight");
  bias(t, name, columns, names);
}
void projection(WeightTable& t, const std::string& name, uint32_t rows, uint32_t columns, const Names& names) {
  weight(t, name, matrix(rows, columns), names, ".weight");
  bias(t, name, rows, names);
}

// The kernel of the patch convolution. llama.cpp's files have one tensor for each frame.
void patch_weights(WeightTable& t, const VisionConfig& c) {
  const int64_t hidden = c.hidden, frames = c.frames, patch = c.patch;
  if (c.order == PatchOrder::frame_channel) {
    const std::vector<int64_t> kernel = {hidden, 3, patch, patch};
    for (const char* frame : {"0", "1"}) {
      const char* const name = *frame == '0' ? "v.patch_embd.weight" : "v.patch_embd.weight.1";
      t.add(cat("patch_embed.", frame).c_str(), matrix(c.hidden, c.patch_elements() / c.frames), {},
            {{.name = name, .shape = kernel}});
    }
  } else {
    const bool last = c.order == PatchOrder::channel_last;
    const std::vector<int64_t> kernel = last ? std::vector<int64_t>{hidden, frames, patch, patch, 3}
                                             : std::vector<int64_t>{hidden, 3, frames, patch, patch};
    t.add("patch_embed", matrix(c.hidden, c.patch_elements()),
          {{.name = "visual.patch_embed.proj.weight", .shape = kernel},
           {.name = "vision_tower.patch_embed.proj.weight", .shape = kernel}},
          {{.name = "v.patch_embed.weight", .shape = {3 * hidden, frames, patch, patch}}});
  }
  bias(t, "patch_embed", c.hidden, {"patch_embed.proj", {"v.patch_embd", "v.patch_embed"}});
  weight(t, "positions", matrix(c.side * c.side, c.hidden), {"pos_embed", {"v.position_embd", "v.pos_embed"}},
         ".weight");
}

void layer_weights(WeightTable& t, const VisionConfig& c, uint32_t index) {
  const std::string layer = cat("layer.", index, "."), block = cat("blocks.", index, "."),
                    v = cat("v.blk.", index, ".");
  norm(t, layer + "norm1", c.hidden, {block + "norm1", {v + "ln1", v + "norm1"}});
  if (c.fused)
    projection(t, layer + "qkv", 3 * c.hidden, c.hidden, {block + "attn.qkv", {v + "attn_qkv"}});
  else
    for (const char* part : {"q", "k", "v"})
      projection(t, cat(layer, part), c.hidden, c.hidden, {cat(block, "attn.", part), {cat(v, "attn_", part)}});
  projection(t, layer + "proj", c.hidden, c.hidden, {block + "attn.proj", {v + "attn_out"}});
  norm(t, layer + "norm2", c.hidden, {block + "norm2", {v + "ln2", v + "norm2"}});
  projection(t, layer + "fc1", c.feed_forward, c.hidden,
             {block + "mlp.linear_fc1", {v + "ffn_up", v + "mlp.linear_fc1"}});
  projection(t, layer + "fc2", c.hidden, c.feed_forward,
             {block + "mlp.linear_fc2", {v + "ffn_down", v + "mlp.linear_fc2"}});
}

WeightTable weight_table_of(const VisionConfig& c) {
  WeightTable t;
  t.beside_text();
  t.section("vision.", "", "");
  patch_weights(t, c);
  for (uint32_t i = 0; i < c.layers; ++i) layer_weights(t, c, i);
  const uint32_t merged = c.patches_per_row() * c.hidden;
  norm(t, "merger.norm", c.hidden, {"merger.norm", {"v.post_ln", "v.merger.norm"}});
  projection(t, "merger.fc1", merged, merged, {"merger.linear_fc1", {"mm.0", "v.merger.linear_fc1"}});
  projection(t, "merger.fc2", c.out, merged, {"merger.linear_fc2", {"mm.2", "v.merger.linear_fc2"}});
  return t;
}

// The kernel of one frame, [hidden, 3, patch, patch], taken out of the kernel of all frames.
std::vector<float> kernel_of_frame(const VisionConfig& c, const TensorSource& all, uint32_t frame) {
  const uint32_t pixels = c.patch * c.patch, colours = 3;
  const bool last = c.order == PatchOrder::channel_last;
  std::vector<float> kernel, row(c.patch_elements());
  for (uint32_t out = 0; out < c.hidden; ++out) {
    decode_weight_row(all, 0, out, row.data());
    for (uint32_t colour = 0; colour < colours; ++colour)
      for (uint32_t pixel = 0; pixel < pixels; ++pixel)
        kernel.push_back(row[last ? (size_t{frame} * pixels + pixel) * colours + colour
                                  : (size_t{colour} * c.frames + frame) * pixels + pixel]);
  }
  return kernel;
}

ProjectorPart projector_of(const VisionConfig& c) {
  ProjectorPart part{.keys = vision_keys(c)};
  const std::vector<int64_t> shape = {c.hidden, 3, c.patch, c.patch};
  for (const uint32_t frame : {0u, 1u})
    part.tensors.push_back({.name = frame == 0 ? "v.patch_embd.weight" : "v.patch_embd.weight.1",
                            .shape = shape,
                            .weight = "vision.patch_embed",
                            .values = [c, frame](const TensorSource& all) { return kernel_of_frame(c, all, frame); }});
  if (c.frames != 2)
    part.problem = cat("patches have ", c.frames, " frames: want 2");
  else if (c.activation != ActivationKind::gelu_tanh)
    part.problem = "layers have the exact GELU: want its tanh form";
  return part;
}

// --- program

constexpr float kTheta = 10000;

class VisionProgram {
 public:
  VisionProgram(Recorder& recorder, const VisionConfig& config, const BoundWeights& weights)
      : r_(recorder), c_(config), weights_(weights) {}

  void record();

 private:
  Value patches_of(const WeightScope& w, Value pixels);
  Value positions_of(const WeightScope& w);
  KeyValue layer_keys(const WeightScope& w, Value h, Value& q);
  Value layer(const WeightScope& w, Value x);
  Value attention_block(const WeightScope& w, Value x);
  Value merger(const WeightScope& w, Value x);
  void turn_by_row_and_column();

  WeightScope scope(const std::string& prefix) { return {r_, weights_, "vision." + prefix}; }
  // An input with a row for each patch.
  Value input(const char* name, uint32_t columns, Element element) {
    const Extent extent{.symbol = Symbol::media_rows, .ratio = c_.patches_per_row()};
    return r_.input(name, {.extent = extent, .width = columns, .element = element});
  }

  Recorder& r_;
  const VisionConfig& c_;
  const BoundWeights& weights_;
  RopeId rope_ = kNone;
  Value first_, last_;
};

Value projected(const WeightScope& w, const std::string& name, Value x) {
  const Value y = linear(x, w[name.c_str()]);
  return add(y, w[(name + ".bias").c_str()]);
}

Value normed(const WeightScope& w, const std::string& name, Value x, float eps) {
  return layer_norm(x, w[name.c_str()], w[(name + ".bias").c_str()], eps);
}

void VisionProgram::record() {
  const WeightScope w = scope("");
  const Value pixels = input("patches", c_.patch_elements(), Element::f32);
  const Value embedded = patches_of(w, pixels), positions = positions_of(w);
  turn_by_row_and_column();
  first_ = input("first", 1, Element::i32);
  last_ = input("last", 1, Element::i32);
  r_.name(embedded, "vision.embed");
  Value x = add(embedded, positions);
  for (uint32_t i = 0; i < c_.layers; ++i) {
    r_.begin_layer(static_cast<int32_t>(i));
    x = layer(scope(cat("layer.", i, ".")), x);
    r_.name(x, cat("vision.layer.", i));
  }
  r_.begin_layer(-1);
  const Value rows = merger(scope("merger."), x);
  r_.name(rows, "vision.soft_tokens");
  r_.output(rows, "rows");
}

Value VisionProgram::patches_of(const WeightScope& w, Value pixels) {
  if (c_.order != PatchOrder::frame_channel) return projected(w, "patch_embed", pixels);
  const Value frames = heads(pixels, c_.frames);
  const Value first = linear(slice(frames, 0, 1), w["patch_embed.0"]);
  const Value second = linear(slice(frames, 1, 1), w["patch_embed.1"]);
  return add(add(first, second), w["patch_embed.bias"]);
}

// The position of each patch: the four entries of the position table around it, interpolated.
Value VisionProgram::positions_of(const WeightScope& w) {
  const Value ids = input("position_ids", kCorners, Element::i32);
  const Value shares = input("position_shares", kCorners, Element::f32);
  return pool(embed(ids, w["positions"], 1.0f), shares);
}

void VisionProgram::turn_by_row_and_column() {
  const Value coordinates = input("coordinates", 2, Element::i32);
  RopeDecl rope{.coordinates = coordinates.id};
  for (const uint32_t axis : {0u, 1u})
    for (const float frequency : inverse_frequencies(kTheta, c_.head_dim() / 2)) {
      rope.inverse_frequencies.push_back(frequency);
      rope.axes.push_back(axis);
    }
  rope_ = r_.rope_table(rope);
}

Value VisionProgram::layer(const WeightScope& w, Value x) {
  x = attention_block(w, x);
  const Value h = normed(w, "norm2", x, c_.eps);
  const Value inner = activation(projected(w, "fc1", h), c_.activation);
  return add(x, projected(w, "fc2", inner));
}

// Returns the layer's keys and values, and sets its queries.
KeyValue VisionProgram::layer_keys(const WeightScope& w, Value h, Value& q) {
  if (!c_.fused) {
    q = heads(projected(w, "q", h), c_.heads);
    const Value k = heads(projected(w, "k", h), c_.heads), v = heads(projected(w, "v", h), c_.heads);
    return {k, v};
  }
  const Value qkv = heads(projected(w, "qkv", h), 3 * c_.heads);
  q = slice(qkv, 0, c_.heads);
  const Value k = slice(qkv, c_.heads, c_.heads), v = slice(qkv, 2 * c_.heads, c_.heads);
  return {k, v};
}

Value VisionProgram::attention_block(const WeightScope& w, Value x) {
  Value q;
  const KeyValue own = layer_keys(w, normed(w, "norm1", x, c_.eps), q);
  const Value turned_q = rope(q, rope_), turned_k = rope(own.key, rope_);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c_.head_dim())));
  const Value a = attention(turned_q, {turned_k, own.value}, {.scale = scale, .first = first_, .last = last_});
  return add(x, projected(w, "proj", flatten(a)));
}

// The patches of a block become one row of the text.
Value VisionProgram::merger(const WeightScope& w, Value x) {
  const Value blocks = flatten(fold(normed(w, "norm", x, c_.eps), c_.patches_per_row()));
  return projected(w, "fc2", activation(projected(w, "fc1", blocks), ActivationKind::gelu));
}

FamilyProgram program_of(const VisionConfig& config) {
  FamilyProgram program;
  program.kind = ProgramKind::vision;
  program.weights = weight_table_of(config);
  program.projector = projector_of(config);
  program.record = [config](Recorder& recorder, const BoundWeights&, const BoundWeights& own, const TextOptions&) {
    VisionProgram(recorder, config, own).record();
  };
  program.prepare_picture = [config](const Picture& picture, const PictureOptions& options) {
    return prepare_picture(config, picture, options);
  };
  program.prepare_frames = [config](std::span<const Picture> frames, const FilmOptions& options) {
    return prepare_frames(config, frames, options);
  };
  program.film = film_rules(config);
  program.most_rows = [config](const PictureOptions& options) { return most_rows(config, options); };
  program.summary = cat(config.layers, config.layers == 1 ? " layer of " : " layers of ", config.hidden, ", up to ",
                        most_rows(config, {}), " rows a picture");
  program.tokens = config.tokens;
  return program;
}

}  // namespace

std::optional<FamilyProgram> vision_program(const Checkpoint& checkpoint, const SourceNames& names,
                                            const char* architecture, uint32_t text_hidden) {
  Result<std::optional<VisionConfig>> config = read_vision_config(checkpoint, names, architecture, text_hidden);
  if (!config) {
    FamilyProgram program;
    program.kind = ProgramKind::vision;
    program.problem = std::move(config).error();
    return program;
  }
  return *config ? std::optional(program_of(**config)) : std::nullopt;
}

}  // namespace sluice::qwen3_5
