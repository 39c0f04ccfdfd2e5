#include "model/towers/qwen3_5_vision_config.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "model/config.h"
#include "model/weight_table.h"

namespace sluice::qwen3_5 {
namespace {

constexpr const char* kProjector = "qwen3vl_merger";
// The limits of Qwen3.5's processors, for a checkpoint without their files.
constexpr PixelRange kPicturePixels = {.least = 1u << 16, .most = 1u << 24};
constexpr PixelRange kFilmPixels = {.least = 1u << 12, .most = 3u << 23};
constexpr std::array kMean = {0.5f, 0.5f, 0.5f}, kDeviation = {0.5f, 0.5f, 0.5f};
constexpr float kEps = 1e-6f;
constexpr uint32_t kOllamaFeedForward = 4304;  // when the file has no key for it
constexpr int64_t kMostPixels = 1 << 28;
constexpr uint32_t kMostMerge = 8, kMostFrames = 8;

enum class Source : uint8_t { hugging_face, llama_cpp, ollama };

// Values that only one source has, or that need work before they fit into VisionConfig.
struct Spelling {
  uint32_t channels = 3, positions = 0;
  uint32_t exact_gelu = 0;
  uint32_t least = 0, most = 0;  // pixels of a picture; 0: missing
};

std::vector<ConfigField> fields(VisionConfig& c, Spelling& s, Source source, uint32_t text_hidden) {
  constexpr double kLeastEps = 1e-12;
  const bool ollama = source == Source::ollama;
  const auto of_ollama = [&](double value) { return ollama ? std::optional(value) : std::nullopt; };
  const char* const least = ollama ? "shortest_edge" : "image_min_pixels";
  const char* const most = ollama ? "longest_edge" : "image_max_pixels";
  // Hugging Face, GGUF, target, range, value when missing, words for 0 and 1
  return {
      {"depth", "block_count", &c.layers, 1, kMaxLayers},
      {"hidden_size", "embedding_length", &c.hidden, 1, kMaxWidth},
      {"intermediate_size", "feed_forward_length", &c.feed_forward, 1, kMaxWidth, of_ollama(kOllamaFeedForward)},
      {"num_heads", "attention.head_count", &c.heads, 1, kMaxHeads},
      {"in_channels", "num_channels", &s.channels, 1, 16, 3},
      {"patch_size", "patch_size", &c.patch, 1, kMaxPatchSide},
      {"spatial_merge_size", "spatial_merge_size", &c.merge, 1, kMostMerge, 2},
      {"temporal_patch_size", "temporal_patch_size", &c.frames, 1, kMostFrames, 2},
      {"num_position_embeddings", nullptr, &s.positions, 1, kMaxPatchPositions},
      {"out_hidden_size", "projection_dim", &c.out, 1, kMaxWidth, of_ollama(text_hidden)},
      {nullptr, "attention.layer_norm_epsilon", &c.eps, kLeastEps, 1, static_cast<double>(kEps)},
      {"hidden_act", nullptr, &s.exact_gelu, 0, 1, 0, {"gelu_pytorch_tanh", "gelu"}},
      {nullptr, least, &s.least, 0, static_cast<double>(kMostPixels), 0},
      {nullptr, most, &s.most, 0, static_cast<double>(kMostPixels), 0},
  };
}

// The first of these tensors that the checkpoint has; null if it has none.
const StoredTensor* first_of(const SourceNames& names, std::initializer_list<const char*> candidates) {
  for (const char* name : candidates)
    if (const StoredTensor* found = names.find(name)) return found;
  return nullptr;
}

PatchOrder order_of(const VisionConfig& c, const SourceNames& names) {
  if (names.find("v.patch_embd.weight.1") != nullptr) return PatchOrder::frame_channel;
  const StoredTensor* kernel =
      first_of(names, {"visual.patch_embed.proj.weight", "vision_tower.patch_embed.proj.weight"});
  const bool last =
      kernel != nullptr && kernel->shape.size() == 5 && kernel->shape[1] == c.frames && kernel->shape[4] == 3;
  return last && c.patch != 3 ? PatchOrder::channel_last : PatchOrder::channel_frame;
}

// GGUF has no key for the rows of the position table, so they are read from its shape.
void finish_gguf(VisionConfig& c, Spelling& s, const SourceNames& names) {
  const StoredTensor* table = first_of(names, {"v.position_embd.weight", "v.pos_embed.weight"});
  if (table != nullptr && table->shape.size() == 2 && table->shape[0] <= kMaxPatchPositions)
    s.positions = static_cast<uint32_t>(std::max<int64_t>(table->shape[0], 0));
  c.fused = names.find("v.blk.0.attn_q.weight") == nullptr;
}

// --- pictures

// Reads a whole number of pixels. Without such a member `pixels` stays as it is.
Status read_pixels(const Json* object, const char* name, const std::string& where, uint64_t& pixels) {
  const Json* member = object == nullptr ? nullptr : object->find(name);
  if (member == nullptr || member->is_null()) return {};
  if (!member->is_integer() || member->as_integer() < 1 || member->as_integer() > kMostPixels)
    return error(ErrorKind::invalid, where, ": ", name, " is ", printable(write_json(*member)), ": want 1 to ",
                 kMostPixels);
  pixels = static_cast<uint64_t>(member->as_integer());
  return {};
}

Result<PixelRange> pixels_of(const Checkpoint& checkpoint, const char* file, PixelRange pixels) {
  const Json* document = checkpoint.document(file);
  if (document == nullptr) return pixels;
  const std::string where = join_path(checkpoint.path(), file);
  const Json* size = document->find("size");
  TRY_STATUS(read_pixels(document, "min_pixels", where, pixels.least));
  TRY_STATUS(read_pixels(document, "max_pixels", where, pixels.most));
  TRY_STATUS(read_pixels(size, "shortest_edge", where, pixels.least));
  TRY_STATUS(read_pixels(size, "longest_edge", where, pixels.most));
  return pixels;
}

// Reads a list of three numbers. Without such a list `colours` stays as it is.
void read_colours(const Json* list, std::array<float, 3>& colours) {
  if (list == nullptr || !list->is_array() || list->as_array().size() != colours.size()) return;
  if (!std::ranges::all_of(list->as_array(), &Json::is_number)) return;
  for (size_t i = 0; i < colours.size(); ++i) colours[i] = static_cast<float>(list->as_array()[i].as_number());
}
void read_colours(const GgufValue* list, std::array<float, 3>& colours) {
  const auto* numbers = list == nullptr ? nullptr : std::get_if<GgufArray<float>>(list);
  if (numbers != nullptr && numbers->size() == colours.size()) std::ranges::copy(*numbers, colours.begin());
}

Status read_pictures(const Checkpoint& checkpoint, const ConfigReader& reader, const Spelling& s, VisionConfig& c) {
  c.picture = kPicturePixels;
  c.film = kFilmPixels;
  c.mean = kMean;
  c.deviation = kDeviation;
  if (reader.is_gguf()) {
    if (s.least != 0) c.picture.least = s.least;
    if (s.most != 0) c.picture.most = s.most;
    read_colours(reader.key("image_mean"), c.mean);
    read_colours(reader.key("image_std"), c.deviation);
  } else {
    TRY_ASSIGN(c.picture, pixels_of(checkpoint, "preprocessor_config.json", c.picture));
    TRY_ASSIGN(c.film, pixels_of(checkpoint, "video_preprocessor_config.json", c.film));
    if (const Json* processor = checkpoint.document("preprocessor_config.json")) {
      read_colours(processor->find("image_mean"), c.mean);
      read_colours(processor->find("image_std"), c.deviation);
    }
  }
  const uint64_t block = uint64_t{c.patch} * c.merge;
  c.picture.most = std::min(c.picture.most, block * block * kMaxTowerRows);
  for (const PixelRange& range : {c.picture, c.film})
    if (range.least > range.most)
      return error(ErrorKind::invalid, checkpoint.path(), ": pictures have ", range.least, " to ", range.most,
                   " pixels: want the larger number last");
  for (const float deviation : c.deviation)
    if (!std::isfinite(deviation) || deviation <= 0)
      return error(ErrorKind::invalid, checkpoint.path(), ": image_std has ", deviation, ": want numbers above 0");
  return {};
}

// --- tokens

Result<int32_t> token_of(const Checkpoint& checkpoint, const char* member, std::string_view text) {
  if (checkpoint.dialect() == Dialect::gguf) {
    TRY(const std::vector<std::string>* tokens, checkpoint.metadata().get_array<std::string>("tokenizer.ggml.tokens"));
    const auto found = std::ranges::find(*tokens, text);
    if (found != tokens->end()) return static_cast<int32_t>(found - tokens->begin());
    return error(ErrorKind::not_found, checkpoint.path(), ": no token is ", printable(text), ": want one for pictures");
  }
  const std::string where = join_path(checkpoint.path(), "config.json");
  const Json* token = checkpoint.document("config.json")->find(member);
  if (token == nullptr) return error(ErrorKind::not_found, where, ": ", member, " is missing");
  if (!token->is_integer() || token->as_integer() < 0 || token->as_integer() >= kMaxVocabulary)
    return error(ErrorKind::invalid, where, ": ", member, " is ", printable(write_json(*token)), ": want 0 to ",
                 kMaxVocabulary - 1);
  return static_cast<int32_t>(token->as_integer());
}

Result<TowerTokens> tokens_of(const Checkpoint& checkpoint) {
  TowerTokens tokens;
  TRY(tokens.begin, token_of(checkpoint, "vision_start_token_id", "<|vision_start|>"));
  TRY(tokens.row, token_of(checkpoint, "image_token_id", "<|image_pad|>"));
  TRY(tokens.end, token_of(checkpoint, "vision_end_token_id", "<|vision_end|>"));
  if (const Result<int32_t> film = token_of(checkpoint, "video_token_id", "<|video_pad|>")) tokens.film_row = *film;
  return tokens;
}

// --- checks that concern more than the range of one field

// A tower whose inner layers also give rows to the text (deepstack) is not this one.
Status refuse_deepstack(const ConfigReader& reader) {
  const Json* layers = reader.member("deepstack_visual_indexes");
  if (layers != nullptr && layers->is_array() && !layers->as_array().empty())
    return reader.refuse(ErrorKind::unsupported, "deepstack_visual_indexes", "names layers: want none");
  const GgufValue* each = reader.key("is_deepstack_layers");
  const auto* flags = each == nullptr ? nullptr : std::get_if<GgufArray<bool>>(each);
  if (flags != nullptr && std::ranges::find(*flags, true) != flags->end())
    return reader.refuse(ErrorKind::unsupported, "is_deepstack_layers", "names layers: want none");
  return {};
}

Status check(const Checkpoint& checkpoint, const ConfigReader& reader, const std::vector<ConfigField>& table,
             VisionConfig& c, Spelling& s, uint32_t text_hidden) {
  const auto refuse = [&](ConfigField::Target target, const auto&... text) {
    return reader.complain(table, target, cat(text...));
  };
  if (s.channels != 3) return refuse(&s.channels, "is ", s.channels, ": want 3");
  if (c.hidden % c.heads != 0 || c.head_dim() % 4 != 0)
    return refuse(&c.heads, "is ", c.heads, ": want heads of ", c.hidden, " whose width is a multiple of 4");
  if (c.out != text_hidden) return refuse(&c.out, "is ", c.out, ": want ", text_hidden, ", the text's");
  if (c.order == PatchOrder::frame_channel && c.frames != 2)
    return refuse(&c.frames, "is ", c.frames, ": want the 2 of the kernels");
  c.side = static_cast<uint32_t>(std::lround(std::sqrt(static_cast<double>(s.positions))));
  if (c.side == 0 || c.side * c.side != s.positions)
    return error(ErrorKind::invalid, checkpoint.path(), ": the table of positions has ", s.positions,
                 " rows: want a square number");
  return {};
}

// --- where the configuration is

// Which program wrote the configuration, and the beginning of the tower's keys in GGUF.
struct Place {
  Source source{};
  std::string keys;
};

Result<std::optional<Place>> find_config(const Checkpoint& checkpoint, const char* architecture) {
  using Nothing = std::optional<Place>;
  if (checkpoint.dialect() == Dialect::hugging_face) {
    const Json* config = checkpoint.document("config.json");
    const Json* vision = config == nullptr ? nullptr : config->find("vision_config");
    return vision != nullptr && vision->is_object() ? Nothing(Place{Source::hugging_face, ""}) : Nothing();
  }
  const std::string ollama = cat(architecture, ".vision");
  if (checkpoint.key(ollama + ".block_count") != nullptr) return Nothing(Place{Source::ollama, ollama});
  if (checkpoint.key("clip.vision.block_count") == nullptr) return Nothing();
  const char* const mixed = "clip.vision.projector_type";
  const char* const name = checkpoint.key(mixed) != nullptr ? mixed : "clip.projector_type";
  TRY(const std::string projector, checkpoint.metadata().get_string(name));
  if (projector == kProjector) return Nothing(Place{Source::llama_cpp, "clip.vision"});
  return error(ErrorKind::unsupported, checkpoint.path(), ": ", name, " is ", printable(projector), ": want ",
               kProjector);
}

}  // namespace

std::vector<GgufMetadata::Entry> vision_keys(VisionConfig config) {
  const auto pixels = [](uint64_t count) { return static_cast<uint32_t>(std::min(count, uint64_t{kMostPixels})); };
  Spelling spelling{.least = pixels(config.picture.least), .most = pixels(config.picture.most)};
  std::vector<GgufMetadata::Entry> keys =
      gguf_keys(fields(config, spelling, Source::llama_cpp, config.out), "clip.vision");
  const auto colours = [](const std::array<float, 3>& of) { return GgufArray<float>(of.begin(), of.end()); };
  keys.insert(keys.end(), {{"clip.projector_type", std::string(kProjector)},
                           {"clip.use_gelu", true},
                           {"clip.vision.image_size", config.side * config.patch},
                           {"clip.vision.image_mean", colours(config.mean)},
                           {"clip.vision.image_std", colours(config.deviation)},
                           {"clip.vision.is_deepstack_layers", GgufArray<bool>(config.layers, false)}});
  return keys;
}

Result<std::optional<VisionConfig>> read_vision_config(const Checkpoint& checkpoint, const SourceNames& names,
                                                       const char* architecture, uint32_t text_hidden) {
  TRY(const std::optional<Place> place, find_config(checkpoint, architecture));
  if (!place) return std::optional<VisionConfig>();
  TRY(const ConfigReader reader, ConfigReader::open(checkpoint, place->keys, "vision_config"));
  VisionConfig config;
  config.eps = kEps;  // config.json has no field for it
  Spelling spelling;
  const std::vector<ConfigField> table = fields(config, spelling, place->source, text_hidden);
  TRY_STATUS(reader.read(table, config.layers));
  TRY_STATUS(refuse_deepstack(reader));
  if (reader.is_gguf()) finish_gguf(config, spelling, names);
  if (spelling.exact_gelu != 0) config.activation = ActivationKind::gelu;
  config.order = order_of(config, names);
  TRY_STATUS(check(checkpoint, reader, table, config, spelling, text_hidden));
  TRY_STATUS(read_pictures(checkpoint, reader, spelling, config));
  TRY_ASSIGN(config.tokens, tokens_of(checkpoint));
  return std::optional(config);
}

}  // namespace sluice::qwen3_5
