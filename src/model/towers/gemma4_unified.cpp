// Gemma 4's unified form (12B) has no encoders: patches of 48 x 48 pixels and frames of 640 samples are projected.
// Source: transformers modeling_gemma4_unified.py (5.17.0), and llama.cpp's mmproj files for GGUF names.
//
// Unlike gemma4_vision.cpp: pixels stay between 0 and 1, and norms before the projection are LayerNorms with bias. A
// row of the position table has the vector of a column and the vector of a row. Pictures are resized by torchvision's
// rule, and sounds need no mel frames.

#include "model/towers/gemma4_unified.h"

#include <bit>
#include <cmath>

#include "base/limits.h"
#include "model/config.h"
#include "model/towers/gemma4_media.h"
#include "model/towers/patches.h"

namespace sluice::gemma4 {
namespace {

constexpr uint32_t kPictureRows = 280;
constexpr float kLayerNormEps = 1e-5f;  // torch's default; no configuration has it

struct UnifiedConfig {
  uint32_t patch = 0, pooling = 1;  // one row stands for a square with sides of patch * pooling pixels
  uint32_t width = 0;               // of patches
  uint32_t positions = 0;           // in each direction
  uint32_t frame = 640;             // samples
  uint32_t max_rows = kPictureRows;
  uint32_t text_hidden = 0;
  float eps = 1e-6f;
  bool tables_apart = false;  // the position table has the vectors of all columns, then those of all rows
  PixelOrder pixels = PixelOrder::pixels_first;

  uint32_t side() const { return patch * pooling; }
  uint32_t columns_of_patch() const { return side() * side() * kPixelColours; }
};

using Keys = std::vector<GgufMetadata::Entry>;

// --- config

Status read_unified_fields(const Checkpoint& checkpoint, const char* section, const std::vector<ConfigField>& fields) {
  TRY(const ConfigReader reader, ConfigReader::open(checkpoint, "", section));
  const uint32_t no_layers = 0;
  TRY_STATUS(reader.read(fields, no_layers));
  return {};
}

Status pictures_of_hugging_face(UnifiedConfig& c, const Checkpoint& checkpoint) {
  constexpr double kLeastEps = 1e-12;
  TRY_STATUS(read_unified_fields(checkpoint, "vision_config",
                                 {{"patch_size", nullptr, &c.patch, 1, kMaxPatchSide},
                                  {"pooling_kernel_size", nullptr, &c.pooling, 1, kMaxPatchSide, 3},
                                  {"mm_embed_dim", nullptr, &c.width, 1, kMaxWidth},
                                  {"mm_posemb_size", nullptr, &c.positions, 1, kMaxPatchPositions},
                                  {"rms_norm_eps", nullptr, &c.eps, kLeastEps, 1, 1e-6}}));
  c.max_rows = picture_rows(checkpoint, kPictureRows, c.side());
  return {};
}

Status sounds_of_hugging_face(UnifiedConfig& c, const Checkpoint& checkpoint) {
  constexpr double kLeastEps = 1e-12;
  return read_unified_fields(checkpoint, "audio_config",
                             {{"audio_embed_dim", nullptr, &c.frame, 1, kMaxWidth, 640},
                              {"rms_norm_eps", nullptr, &c.eps, kLeastEps, 1, 1e-6}});
}

// GGUF has no keys for the sizes, so they are read from the shapes of two tensors.
Status pictures_of_gguf(UnifiedConfig& c, const Checkpoint& checkpoint, const SourceNames& names) {
  const auto shape_of = [&](const char* name, size_t dimensions) -> Result<std::vector<int64_t>> {
    const StoredTensor* tensor = names.find(name);
    if (tensor != nullptr && tensor->shape.size() == dimensions) return tensor->shape;
    return error(ErrorKind::invalid, checkpoint.path(), ": ", name, " is ",
                 tensor == nullptr ? "missing" : format_shape(tensor->shape), ": want ", dimensions, " dimensions");
  };
  TRY(const std::vector<int64_t> patches, shape_of("v.patch_embd.weight", 2));
  TRY(const std::vector<int64_t> tables, shape_of("v.position_embd.weight", 3));
  c.tables_apart = true;
  const int64_t width = patches[0], side = std::lround(std::sqrt(static_cast<double>(patches[1]) / kPixelColours));
  const int64_t positions = tables[1];
  if (width < 1 || width > kMaxWidth || side < 1 || side > kMaxPatchSide || positions < 1 ||
      positions > kMaxPatchPositions)
    return error(ErrorKind::invalid, checkpoint.path(), ": patches of ", side, " x ", side, ", ", width, " wide, at ",
                 positions, " positions: want at most ", kMaxPatchSide, ", ", kMaxWidth, " and ", kMaxPatchPositions);
  c.width = static_cast<uint32_t>(width);
  c.patch = static_cast<uint32_t>(side);
  c.positions = static_cast<uint32_t>(positions);
  c.pixels = PixelOrder::colours_first;
  c.max_rows = picture_rows(checkpoint, kPictureRows, c.side());
  return {};
}

// --- weights

void add_layer_norm(WeightTable& t, const std::string& name, uint32_t width, const std::string& hugging_face,
                    const std::string& gguf, const HeadOrder& order = {}) {
  for (const char* part : {".weight", ".bias"}) {
    t.add((name + part).c_str(), vector_of(width), (hugging_face + part).c_str(), (gguf + part).c_str());
    t.gguf_heads(order);
  }
}

WeightTable picture_weights(const UnifiedConfig& c) {
  WeightTable t;
  t.beside_text();
  t.section("vision.", "embed_vision.", "");
  const HeadOrder colours = c.pixels == PixelOrder::pixels_first ? colours_behind(c.side()) : HeadOrder{};
  add_layer_norm(t, "patch_norm_1", c.columns_of_patch(), "patch_ln1", "v.patch_norm.1", colours);
  t.add("patch_embed", matrix(c.width, c.columns_of_patch()), "patch_dense.weight", "v.patch_embd.weight");
  t.gguf_heads(colours);
  t.add("patch_embed.bias", vector_of(c.width), "patch_dense.bias", "v.patch_embd.bias");
  add_layer_norm(t, "patch_norm_2", c.width, "patch_ln2", "v.patch_norm.2");
  const std::vector<int64_t> together = {c.positions, 2, c.width}, apart = {2, c.positions, c.width};
  t.add("position_embed", matrix(2 * c.positions, c.width), {{.name = "pos_embedding", .shape = together}},
        {{.name = "v.position_embd.weight", .shape = apart}});
  if (!c.tables_apart) t.gguf_heads({.groups = c.positions, .per_group = 2});
  add_layer_norm(t, "position_norm", c.width, "pos_norm", "v.patch_norm.3");
  t.add("projection", matrix(c.text_hidden, c.width),
        {{"multimodal_embedder.embedding_projection.weight"}, {"embedding_projection.weight"}},
        {{"mm.input_projection.weight"}});
  return t;
}

WeightTable sound_weights(const UnifiedConfig& c) {
  WeightTable t;
  t.beside_text();
  t.section("audio.", "embed_audio.", "mm.a.");
  t.add("projection", matrix(c.text_hidden, c.frame), "embedding_projection.weight", "input_projection.weight");
  return t;
}

// mmproj files have no keys for eps of the RMS norm and for the samples of a frame, so readers assume the usual values.
std::string what_no_key_says(const UnifiedConfig& c) {
  const UnifiedConfig usual;
  if (c.eps != usual.eps) return cat("eps of norms is ", c.eps, ": want ", usual.eps);
  if (c.frame != usual.frame) return cat("frames have ", c.frame, " samples: want ", usual.frame);
  return "";
}

// llama.cpp requires keys about layers although this form has none.
Keys no_layers(const std::string& tower, uint32_t width, const UnifiedConfig& c) {
  return {{tower + ".embedding_length", width},
          {tower + ".feed_forward_length", 0u},
          {tower + ".block_count", 0u},
          {tower + ".attention.head_count", 0u},
          {tower + ".attention.layer_norm_epsilon", c.eps}};
}

ProjectorPart picture_projector(const UnifiedConfig& c) {
  ProjectorPart part{.keys = no_layers("clip.vision", c.width, c), .problem = what_no_key_says(c)};
  part.keys.insert(part.keys.end(),
                   {{"clip.vision.patch_size", c.patch}, {"clip.vision.projector.scale_factor", c.pooling}});
  add_picture_keys(part.keys, "gemma4uv", c.text_hidden, picture_pixels(c.max_rows, c.side()));
  return part;
}

ProjectorPart sound_projector(const UnifiedConfig& c) {
  ProjectorPart part{.keys = no_layers("clip.audio", c.frame, c), .problem = what_no_key_says(c)};
  part.keys.insert(part.keys.end(), {{"clip.audio.projector_type", std::string("gemma4ua")},
                                     {"clip.audio.projection_dim", c.text_hidden},
                                     {"clip.audio.num_mel_bins", c.frame}});
  return part;
}

// --- programs

void record_pictures(Recorder& r, const UnifiedConfig& c, const BoundWeights& weights) {
  const WeightScope w(r, weights, "vision.");
  const Extent rows{Symbol::media_rows};
  const auto norm = [&](Value x, const std::string& name) {
    const Weight weight = w[(name + ".weight").c_str()], bias = w[(name + ".bias").c_str()];
    return layer_norm(x, weight, bias, kLayerNormEps);
  };
  const Value patches = r.input("patches", {.extent = rows, .width = c.columns_of_patch()});
  const Value positions = r.input("positions", {.extent = rows, .width = 2, .element = Element::i32});
  Value x = norm(patches, "patch_norm_1");
  r.name(x, "vision.patch_ln1");
  x = norm(add(linear(x, w["patch_embed"]), w["patch_embed.bias"]), "patch_norm_2");
  r.name(x, "vision.embed");
  x = norm(add(x, pool(embed(positions, w["position_embed"], 1.0f), 1.0f)), "position_norm");
  r.name(x, "vision.positioned");
  x = linear(rms_norm(x, c.eps), w["projection"]);
  r.name(x, "vision.projected");
  r.name(x, "vision.soft_tokens");
  r.output(x, "rows");
}

void record_sounds(Recorder& r, const UnifiedConfig& c, const BoundWeights& weights) {
  const WeightScope w(r, weights, "audio.");
  const Value frames = r.input("frames", {.extent = {Symbol::media_rows}, .width = c.frame});
  const Value x = linear(rms_norm(frames, c.eps), w["projection"]);
  r.name(x, "audio.soft_tokens");
  r.output(x, "rows");
}

// --- pictures and sounds

Result<TowerInputs> prepare_unified_picture(const UnifiedConfig& c, const Picture& picture,
                                            const PictureOptions& options) {
  const uint32_t most = options.max_rows == 0 ? c.max_rows : options.max_rows;
  TRY(const Picture resized, resized_picture(picture, c.side(), most, Resizing::torchvision));
  const uint32_t columns = resized.width / c.side(), rows = resized.height / c.side();
  if (columns > c.positions || rows > c.positions)
    return error(ErrorKind::invalid, "picture: is ", columns, " x ", rows, " patches: want at most ", c.positions,
                 " in each direction");
  const std::vector<PatchPlace> places = patch_places(columns, rows, 1);
  const uint32_t column_step = c.tables_apart ? 1 : 2, first_row = c.tables_apart ? c.positions : 1;
  std::vector<uint32_t> positions;
  for (const PatchPlace& place : places)
    positions.insert(positions.end(), {place.x * column_step, place.y * column_step + first_row});
  TowerInputs inputs{.rows = static_cast<uint32_t>(places.size())};
  inputs.inputs.push_back({"patches", cut_patches(resized, places, c.side(), c.pixels, byte_values(1.0f, 0.0f))});
  inputs.inputs.push_back({"positions", std::move(positions)});
  return inputs;
}

Result<TowerInputs> prepare_unified_sound(const UnifiedConfig& c, const Sound& sound) {
  TRY_STATUS(check_sound(sound));
  const size_t rows = (sound.samples.size() + c.frame - 1) / c.frame;
  std::vector<uint32_t> frames(rows * c.frame);
  for (size_t i = 0; i < sound.samples.size(); ++i) frames[i] = std::bit_cast<uint32_t>(sound.samples[i]);
  TowerInputs inputs{.rows = static_cast<uint32_t>(rows)};
  inputs.inputs.push_back({"frames", std::move(frames)});
  return inputs;
}

bool is_unified(const Checkpoint& checkpoint, const std::string& tower, const std::string& projector) {
  if (checkpoint.dialect() == Dialect::gguf) {
    const auto type = checkpoint.metadata().get_string(cat("clip.", tower, ".projector_type"));
    return type && *type == projector;
  }
  const Json* section = tower_section(checkpoint, cat(tower, "_config").c_str());
  const Json* type = section == nullptr ? nullptr : section->find("model_type");
  return type != nullptr && type->is_string() && type->as_string() == cat("gemma4_unified_", tower);
}

FamilyProgram picture_program(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden) {
  FamilyProgram tower{.kind = ProgramKind::vision, .weights = {}, .record = {}};
  UnifiedConfig config{.text_hidden = hidden};
  const bool gguf = checkpoint.dialect() == Dialect::gguf;
  const Status read = gguf ? pictures_of_gguf(config, checkpoint, names) : pictures_of_hugging_face(config, checkpoint);
  if (!read) {
    tower.problem = read.error();
    return tower;
  }
  tower.weights = picture_weights(config);
  tower.projector = picture_projector(config);
  tower.record = [config](Recorder& recorder, const BoundWeights&, const BoundWeights& own, const TextOptions&) {
    record_pictures(recorder, config, own);
  };
  tower.prepare_picture = [config](const Picture& picture, const PictureOptions& options) {
    return prepare_unified_picture(config, picture, options);
  };
  tower.most_rows = [config](const PictureOptions& options) { return most_rows(options, config.max_rows); };
  const FilmNumbers film = film_numbers(checkpoint);
  tower.prepare_frames = [config, film](std::span<const Picture> frames, const FilmOptions& options) {
    return prepare_unified_picture(config, frames[0], {.max_rows = frame_rows(film, options)});
  };
  tower.film = film_rules(film);
  tower.tokens = tower_tokens(checkpoint, "image");
  tower.summary = cat("patches of ", config.side(), " x ", config.side(), " pixels, projected, up to ", config.max_rows,
                      " rows a picture");
  return tower;
}

FamilyProgram sound_program(const Checkpoint& checkpoint, uint32_t hidden) {
  FamilyProgram tower{.kind = ProgramKind::audio, .weights = {}, .record = {}};
  UnifiedConfig config{.text_hidden = hidden};
  const bool gguf = checkpoint.dialect() == Dialect::gguf;
  const Status read = gguf ? Status() : sounds_of_hugging_face(config, checkpoint);
  if (!read) {
    tower.problem = read.error();
    return tower;
  }
  tower.weights = sound_weights(config);
  tower.projector = sound_projector(config);
  tower.record = [config](Recorder& recorder, const BoundWeights&, const BoundWeights& own, const TextOptions&) {
    record_sounds(recorder, config, own);
  };
  tower.prepare_sound = [config](const Sound& sound) { return prepare_unified_sound(config, sound); };
  tower.most_rows = [config](const PictureOptions&) { return (kMostSamples + config.frame - 1) / config.frame; };
  tower.tokens = tower_tokens(checkpoint, "audio");
  tower.summary = cat("frames of ", config.frame, " samples, projected");
  return tower;
}

}  // namespace

std::vector<FamilyProgram> unified_towers(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden) {
  std::vector<FamilyProgram> towers;
  if (is_unified(checkpoint, "vision", "gemma4uv")) towers.push_back(picture_program(checkpoint, names, hidden));
  if (is_unified(checkpoint, "audio", "gemma4ua")) towers.push_back(sound_program(checkpoint, hidden));
  return towers;
}

}  // namespace sluice::gemma4
