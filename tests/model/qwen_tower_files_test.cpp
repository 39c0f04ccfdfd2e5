// Qwen3.5's vision tower from the files that people have: the same weights under the names, shapes and orders of
// llama.cpp's mmproj files, of Ollama's and of MLX's give the same rows; damaged configurations are one sentence.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "format/format.h"
#include "model/export.h"
#include "tests/model/text_bench.h"
#include "tests/model/tower_bench.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

const std::string kModel = SLUICE_TEST_DATA "/qwen3_5_moe/";
constexpr int64_t kHidden = 32, kPatch = 16, kFrames = 2, kColours = 3;

// Tensors in memory of their own, in f32.
class Tensors {
 public:
  void add(std::string name, std::vector<int64_t> shape, std::vector<float> values) {
    ASSERT_EQ(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()),
              static_cast<int64_t>(values.size()))
        << name;
    memory_->push_back(std::move(values));
    stored_.push_back({.name = std::move(name),
                       .format = Format::f32,
                       .shape = std::move(shape),
                       .bytes = std::as_bytes(std::span(memory_->back()))});
  }
  std::vector<StoredTensor> stored() const { return stored_; }
  std::shared_ptr<const void> memory() const { return memory_; }

 private:
  std::shared_ptr<std::vector<std::vector<float>>> memory_ = std::make_shared<std::vector<std::vector<float>>>();
  std::vector<StoredTensor> stored_;
};

std::vector<float> values_of(const StoredTensor& tensor) {
  const int64_t count = std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> values(static_cast<size_t>(count));
  decode_row(tensor.format, tensor.bytes.data(), values.data(), values.size());
  return values;
}

// [out, first, second, rest] as [out, second, first, rest], and the like.
std::vector<float> swapped(const std::vector<float>& from, int64_t outer, int64_t first, int64_t second, int64_t rest) {
  std::vector<float> to(from.size());
  size_t at = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t s = 0; s < second; ++s)
      for (int64_t f = 0; f < first; ++f)
        for (int64_t r = 0; r < rest; ++r)
          to[at++] = from[static_cast<size_t>(((o * first + f) * second + s) * rest + r)];
  return to;
}

std::vector<float> part(const std::vector<float>& from, size_t index, size_t parts) {
  const size_t size = from.size() / parts;
  return {from.begin() + static_cast<std::ptrdiff_t>(index * size),
          from.begin() + static_cast<std::ptrdiff_t>((index + 1) * size)};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

Model original() { return unwrap(open_model(kModel)); }

// Calls use(name behind "model.visual.", tensor) for each of the tower.
void for_each_of_tower(const Model& model, const std::function<void(const std::string&, const StoredTensor&)>& use) {
  const std::string prefix = "model.visual.";
  for (const StoredTensor& tensor : model.checkpoint().tensors())
    if (starts_with(tensor.name, prefix)) use(tensor.name.substr(prefix.size()), tensor);
}

using Renames = std::vector<std::pair<std::string, std::string>>;
const Renames kLlamaCpp = {{"blocks.", "v.blk."},
                           {"attn.qkv", "attn_qkv"},
                           {"attn.proj", "attn_out"},
                           {"norm1", "ln1"},
                           {"norm2", "ln2"},
                           {"mlp.linear_fc1", "ffn_up"},
                           {"mlp.linear_fc2", "ffn_down"},
                           {"merger.norm", "v.post_ln"},
                           {"merger.linear_fc1", "mm.0"},
                           {"merger.linear_fc2", "mm.2"},
                           {"pos_embed", "v.position_embd"},
                           {"patch_embed.proj", "v.patch_embd"}};
const Renames kOllama = {{"blocks.", "v.blk."},
                         {"attn.proj", "attn_out"},
                         {"merger.", "v.merger."},
                         {"pos_embed", "v.pos_embed"},
                         {"patch_embed.proj", "v.patch_embed"}};

std::string renamed(std::string name, const Renames& renames) {
  for (const auto& [from, to] : renames) name = replaced(name, from, to);
  return name;
}

void add_llama_cpp(const Model& model, Tensors& to) {
  for_each_of_tower(model, [&](const std::string& name, const StoredTensor& tensor) {
    const std::vector<float> values = values_of(tensor);
    if (name != "patch_embed.proj.weight") return to.add(renamed(name, kLlamaCpp), tensor.shape, values);
    const std::vector<float> by_frame = swapped(values, 1, kHidden * kColours, kFrames, kPatch * kPatch);
    to.add("v.patch_embd.weight", {kHidden, kColours, kPatch, kPatch}, part(by_frame, 0, 2));
    to.add("v.patch_embd.weight.1", {kHidden, kColours, kPatch, kPatch}, part(by_frame, 1, 2));
  });
}

void add_ollama(const Model& model, Tensors& to) {
  for_each_of_tower(model, [&](const std::string& name, const StoredTensor& tensor) {
    const std::vector<float> values = values_of(tensor);
    const std::string known = renamed(name, kOllama);
    if (name == "patch_embed.proj.weight") return to.add(known, {kColours * kHidden, kFrames, kPatch, kPatch}, values);
    if (known.find("attn.qkv") == std::string::npos) return to.add(known, tensor.shape, values);
    std::vector<int64_t> shape = tensor.shape;
    shape[0] /= 3;
    for (size_t i = 0; i < 3; ++i)
      to.add(replaced(known, "attn.qkv", cat("attn_", "qkv"[i])), shape, part(values, i, 3));
  });
}

void add_text(const Model& model, Tensors& to, GgufMetadata& keys) {
  const GgufExport out = unwrap(export_gguf(model, *find_mix("f32")));
  ThreadPool pool(1);
  for (const auto& key : out.keys) keys.add(key.name, key.value);
  for (const ExportTensor& tensor : out.tensors) {
    std::vector<float> values;
    unwrap(convert_rows(tensor, pool, [&](std::span<const std::byte> piece) -> Status {
      const size_t at = values.size();
      values.resize(at + piece.size() / 4);
      std::memcpy(values.data() + at, piece.data(), piece.size());
      return {};
    }));
    to.add(tensor.name, tensor.shape, std::move(values));
  }
  GgufArray<std::string> tokens(768);
  tokens[751] = "<|vision_start|>";
  tokens[752] = "<|vision_end|>";
  tokens[754] = "<|image_pad|>";
  keys.add("tokenizer.ggml.tokens", tokens);
}

using Keys = std::vector<GgufMetadata::Entry>;

Keys tower_keys(const std::string& prefix) {
  return {{prefix + ".block_count", 2u},
          {prefix + ".embedding_length", 32u},
          {prefix + ".feed_forward_length", 64u},
          {prefix + ".attention.head_count", 2u},
          {prefix + ".patch_size", 16u},
          {prefix + ".spatial_merge_size", 2u},
          {prefix + ".image_mean", GgufArray<float>{0.5f, 0.5f, 0.5f}},
          {prefix + ".image_std", GgufArray<float>{0.5f, 0.5f, 0.5f}}};
}
Keys llama_cpp_keys() {
  Keys keys = tower_keys("clip.vision");
  keys.push_back({"clip.projector_type", std::string("qwen3vl_merger")});
  keys.push_back({"clip.vision.projection_dim", 64u});
  keys.push_back({"clip.vision.attention.layer_norm_epsilon", 1e-6f});
  keys.push_back({"clip.vision.is_deepstack_layers", GgufArray<bool>{false, false}});
  keys.push_back({"clip.vision.image_min_pixels", 1024u});
  return keys;
}
Keys ollama_keys() {
  Keys keys = tower_keys("qwen35moe.vision");
  keys.push_back({"qwen35moe.vision.shortest_edge", 1024u});
  keys.push_back({"qwen35moe.vision.longest_edge", 1048576u});
  return keys;
}

// A GGUF model with its tower inside.
Result<Model> gguf_model(void (*add_tower)(const Model&, Tensors&), const Keys& keys) {
  const Model model = original();
  Tensors tensors;
  GgufMetadata metadata("made.gguf");
  add_text(model, tensors, metadata);
  add_tower(model, tensors);
  for (const auto& key : keys) metadata.add(key.name, key.value);
  return resolve(std::make_shared<const Checkpoint>(make_checkpoint({.dialect = Dialect::gguf,
                                                                     .name = "made.gguf",
                                                                     .documents = {},
                                                                     .metadata = std::move(metadata),
                                                                     .tensors = tensors.stored(),
                                                                     .memory = tensors.memory()})));
}

// The same checkpoint with changed documents and tensors.
Result<Model> changed(const std::function<void(Json& config)>& change, bool channels_last = false) {
  const Model model = original();
  const Checkpoint& from = model.checkpoint();
  Tensors tensors;
  for (const StoredTensor& tensor : from.tensors()) {
    std::vector<float> values = values_of(tensor);
    if (!channels_last || tensor.name != "model.visual.patch_embed.proj.weight") {
      tensors.add(replaced(tensor.name, "model.visual.", channels_last ? "vision_tower." : "model.visual."),
                  tensor.shape, std::move(values));
      continue;
    }
    tensors.add("vision_tower.patch_embed.proj.weight", {kHidden, kFrames, kPatch, kPatch, kColours},
                swapped(values, kHidden, kColours, kFrames * kPatch * kPatch, 1));
  }
  Json config = *from.document("config.json");
  change(config);
  std::vector<std::pair<std::string, Json>> documents = {{"config.json", config}};
  documents.emplace_back("preprocessor_config.json", *from.document("preprocessor_config.json"));
  return resolve(std::make_shared<const Checkpoint>(make_checkpoint({.dialect = Dialect::hugging_face,
                                                                     .name = "made",
                                                                     .documents = std::move(documents),
                                                                     .metadata = {},
                                                                     .tensors = tensors.stored(),
                                                                     .memory = tensors.memory()})));
}

Picture coloured() {
  Picture picture{.width = 96, .height = 64, .pixels = {}};
  for (size_t i = 0; i < size_t{96} * 64 * 3; ++i) picture.pixels.push_back(static_cast<uint8_t>(i * i * 31 + i * 7));
  return picture;
}

std::vector<float> rows_of(const Model& model) {
  return TowerBench(model, ProgramKind::vision, make_reference_device())
      .play(unwrap(model.prepare(coloured())))
      .at("rows");
}

// The largest difference, as a share of the largest number.
double difference(const std::vector<float>& found, const std::vector<float>& expected) {
  double most = 0, largest = 0;
  EXPECT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    most = std::max(most, std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i])));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  EXPECT_GT(largest, 0);
  return most / largest;
}

TEST(QwenTowerFiles, OfLlamaCppGiveTheSameRows) {
  const Model model = unwrap(gguf_model(add_llama_cpp, llama_cpp_keys()));
  EXPECT_TRUE(model.unread_tensors().empty());
  EXPECT_LE(difference(rows_of(model), rows_of(original())), 1e-5);  // two sums where there was one
  const TowerTokens& tokens = model.tower_tokens(ProgramKind::vision);
  EXPECT_EQ((std::array{tokens.begin, tokens.row, tokens.end, tokens.film_row}), (std::array{751, 754, 752, -1}));
}

TEST(QwenTowerFiles, OfOllamaGiveTheSameRows) {
  const Model model = unwrap(gguf_model(add_ollama, ollama_keys()));
  EXPECT_TRUE(model.unread_tensors().empty());
  EXPECT_EQ(rows_of(model), rows_of(original()));
}

TEST(QwenTowerFiles, OfMlxGiveTheSameRows) {
  const Model model = unwrap(changed([](Json&) {}, true));
  EXPECT_TRUE(model.unread_tensors().empty());
  EXPECT_LE(difference(rows_of(model), rows_of(original())), 1e-5);  // sums of 1536 products in another order
  EXPECT_EQ(model.tower_tokens(ProgramKind::vision).film_row, 755);
}

std::vector<float> written_values(const GgufExport& towers, const std::string& name) {
  const auto tensor = std::ranges::find(towers.tensors, name, &ExportTensor::name);
  EXPECT_NE(tensor, towers.tensors.end()) << name;
  EXPECT_EQ(tensor->format, Format::f32);
  ThreadPool pool(1);
  std::vector<float> values;
  unwrap(convert_rows(*tensor, pool, [&](std::span<const std::byte> piece) -> Status {
    const size_t at = values.size();
    values.resize(at + piece.size() / sizeof(float));
    std::memcpy(values.data() + at, piece.data(), piece.size());
    return {};
  }));
  return values;
}

TEST(QwenTowerFiles, AreWrittenWithAKernelForEachFrame) {
  Tensors expected;
  add_llama_cpp(original(), expected);
  for (const bool channels_last : {false, true}) {
    const GgufExport towers = unwrap(export_projector(unwrap(changed([](Json&) {}, channels_last))));
    EXPECT_EQ(towers.tensors.size(), expected.stored().size());
    for (const StoredTensor& tensor : expected.stored())
      if (starts_with(tensor.name, "v.patch_embd.weight"))
        EXPECT_EQ(written_values(towers, tensor.name), values_of(tensor)) << tensor.name;
  }
}

// --- what is refused: the text runs on without the tower

void set(Json& config, const std::string& name, Json value) {
  for (auto& [member, part] : config.as_object()) {
    if (member != "vision_config") continue;
    std::erase_if(part.as_object(), [&](const Json::Member& one) { return one.first == name; });
    part.add(name, std::move(value));
  }
}

std::string problem(const Result<Model>& model) {
  if (!model) return "the model: " + model.error().text;
  EXPECT_FALSE(model->has(ProgramKind::vision));
  EXPECT_TRUE(model->record_text());
  const Result<TowerInputs> inputs = model->prepare(coloured());
  return inputs ? "" : inputs.error().text;
}
std::string problem_with(const std::string& name, const Json& value) {
  return problem(changed([&](Json& config) { set(config, name, value); }));
}
std::string problem_with_key(const std::string& name, const GgufValue& value) {
  Keys keys = llama_cpp_keys();
  std::erase_if(keys, [&](const GgufMetadata::Entry& key) { return key.name == name; });
  keys.push_back({name, value});
  return problem(gguf_model(add_llama_cpp, keys));
}

TEST(QwenTowerFiles, NameAConfigurationThatIsNoTower) {
  EXPECT_EQ(problem_with("depth", 0), "made/config.json: vision_config.depth is 0: want 1 to 512");
  EXPECT_EQ(problem_with("num_heads", 3),
            "made/config.json: vision_config.num_heads is 3: want heads of 32 whose width is a multiple of 4");
  EXPECT_EQ(problem_with("out_hidden_size", 65),
            "made/config.json: vision_config.out_hidden_size is 65: want 64, the text's");
  EXPECT_EQ(problem_with("num_position_embeddings", 63),
            "made: the table of positions has 63 rows: want a square number");
  EXPECT_EQ(problem_with("deepstack_visual_indexes", Json::Array{1}),
            "made/config.json: vision_config.deepstack_visual_indexes names layers: want none");
  EXPECT_EQ(problem_with("hidden_act", "relu"),
            "made/config.json: vision_config.hidden_act is \"relu\": want gelu_pytorch_tanh or gelu");
  EXPECT_EQ(problem_with("in_channels", 4), "made/config.json: vision_config.in_channels is 4: want 3");
}

TEST(QwenTowerFiles, NameWhatIsMissing) {
  EXPECT_EQ(problem_with("depth", 3),
            "made: 12 tensors are missing: visual.blocks.2.norm1.weight, visual.blocks.2.norm1.bias, "
            "visual.blocks.2.attn.qkv.weight and 9 more");
  EXPECT_EQ(problem(changed([](Json& config) {
              std::erase_if(config.as_object(), [](const auto& member) { return member.first == "image_token_id"; });
            })),
            "made/config.json: image_token_id is missing");
  EXPECT_EQ(problem(changed([](Json& config) {
              std::erase_if(config.as_object(), [](const auto& member) { return member.first == "vision_config"; });
            })),
            "made: has no vision tower: want a model that takes pictures");
}

TEST(QwenTowerFiles, AreNotWrittenWhereAKeyIsMissingForThem) {
  const auto refusal = [](const Model& model) { return export_projector(model).error().text; };
  EXPECT_EQ(refusal(unwrap(gguf_model(add_ollama, ollama_keys()))),
            "made.gguf: towers of a GGUF file: want a Hugging Face directory to write them");
  EXPECT_EQ(refusal(unwrap(changed([](Json& config) { set(config, "hidden_act", "gelu"); }))),
            "made: vision tower: layers have the exact GELU: want its tanh form");
  EXPECT_EQ(refusal(unwrap(changed([](Json& config) { set(config, "depth", 0); }))),
            "made/config.json: vision_config.depth is 0: want 1 to 512");
}

TEST(QwenTowerFiles, NameKeysOfAnotherTower) {
  EXPECT_EQ(problem_with_key("clip.projector_type", std::string("gemma4v")),
            "made.gguf: clip.projector_type is gemma4v: want qwen3vl_merger");
  EXPECT_EQ(problem_with_key("clip.vision.is_deepstack_layers", GgufArray<bool>{false, true}),
            "made.gguf: clip.vision.is_deepstack_layers names layers: want none");
  EXPECT_EQ(problem_with_key("clip.vision.temporal_patch_size", 4u),
            "made.gguf: clip.vision.temporal_patch_size is 4: want the 2 of the kernels");
  EXPECT_EQ(problem_with_key("clip.vision.image_std", GgufArray<float>{0.5f, 0.0f, 0.5f}),
            "made.gguf: image_std has 0: want numbers above 0");
  EXPECT_EQ(problem_with_key("clip.vision.image_max_pixels", 1023u),
            "made.gguf: pictures have 1024 to 1023 pixels: want the larger number last");
}

}  // namespace
}  // namespace sluice
