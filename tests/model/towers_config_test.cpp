// Towers that a configuration names: what is said of those that are wrong or not whole, and how pictures and sounds
// that do not fit are refused. The text model opens all the same.
#include <gtest/gtest.h>

#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"

namespace sluice {
namespace {

using tests::tiny_config;
using tests::tiny_tensors;
using tests::TinyTensor;

Json vision_config() {
  return Json::Object{{"model_type", "gemma4_vision"}, {"num_hidden_layers", 1},        {"hidden_size", 16},
                      {"intermediate_size", 24},       {"num_attention_heads", 2},      {"patch_size", 4},
                      {"pooling_kernel_size", 3},      {"position_embedding_size", 20}, {"default_output_length", 12}};
}

std::vector<TinyTensor> vision_tensors() {
  const std::string tower = "model.vision_tower.", layer = tower + "encoder.layers.0.";
  std::vector<TinyTensor> tensors = {{tower + "patch_embedder.input_proj.weight", {16, 48}},
                                     {tower + "patch_embedder.position_embedding_table", {2, 20, 16}},
                                     {"model.embed_vision.embedding_projection.weight", {32, 16}}};
  for (const char* norm :
       {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
    tensors.push_back({layer + norm + ".weight", {16}});
  for (const char* norm : {"q_norm", "k_norm"}) tensors.push_back({cat(layer, "self_attn.", norm, ".weight"), {8}});
  for (const char* matrix : {"q_proj", "k_proj", "v_proj", "o_proj"})
    tensors.push_back({cat(layer, "self_attn.", matrix, ".linear.weight"), {16, 16}});
  for (const char* matrix : {"gate_proj", "up_proj"})
    tensors.push_back({cat(layer, "mlp.", matrix, ".linear.weight"), {24, 16}});
  tensors.push_back({layer + "mlp.down_proj.linear.weight", {16, 24}});
  return tensors;
}

class TowersConfig : public tests::TinyModel {
 protected:
  Model model_with(const Json& vision, const std::vector<TinyTensor>& tower) {
    Json config = tiny_config({});
    config.add("vision_config", vision);
    config.add("image_token_id", 19);
    config.add("boi_token_id", 17);
    config.add("eoi_token_id", 21);
    std::vector<TinyTensor> tensors = tiny_tensors({});
    tensors.insert(tensors.end(), tower.begin(), tower.end());
    put_model(config, tensors);
    Result<Model> model = open_model(folder_);
    EXPECT_TRUE(model) << model.error().text;
    return *std::move(model);
  }
  // Why there is no vision tower, without the folder's name.
  std::string problem_with(const Json& vision, const std::vector<TinyTensor>& tower) {
    const Model model = model_with(vision, tower);
    EXPECT_FALSE(model.has(ProgramKind::vision));
    EXPECT_TRUE(model.record_text());
    const std::string text = model.record(ProgramKind::vision).error().text;
    EXPECT_EQ(model.prepare(Picture{}).error().text, text);
    return text.substr(folder_.size());
  }
  static Json with(Json config, const std::string& name, Json value) {
    for (auto& [known, member] : config.as_object())
      if (known == name) {
        member = std::move(value);
        return config;
      }
    config.add(name, std::move(value));
    return config;
  }
};

bool has_input(const Program& program, const std::string& name) {
  return std::ranges::find(program.inputs, name, &NamedValue::name) != program.inputs.end();
}

TEST_F(TowersConfig, AWholeTowerIsAProgram) {
  const Model model = model_with(vision_config(), vision_tensors());
  EXPECT_EQ(model.programs(), (std::vector<ProgramKind>{ProgramKind::text, ProgramKind::vision}));
  EXPECT_TRUE(model.unread_tensors().empty());
  EXPECT_EQ(model.tower_tensors().size(), vision_tensors().size());
  const TowerTokens& tokens = model.tower_tokens(ProgramKind::vision);
  EXPECT_EQ(tokens.begin, 17);
  EXPECT_EQ(tokens.row, 19);
  EXPECT_EQ(tokens.end, 21);
  EXPECT_FALSE(model.sees_ahead(ProgramKind::vision));
  const Result<Program> tower = model.record(ProgramKind::vision);
  ASSERT_TRUE(tower) << tower.error().text;
  EXPECT_EQ(tower->outputs.front().name, "rows");
  const std::pair<std::string, std::string> summary = {"vision tower", "1 layer of 16, up to 12 rows a picture"};
  EXPECT_EQ(model.facts().details.back(), summary);
}

TEST_F(TowersConfig, TheTextTakesRowsOfAWholeTowerOnly) {
  const Model model = model_with(vision_config(), vision_tensors());
  const Program text = *model.record_text();
  EXPECT_TRUE(has_input(text, "media"));
  EXPECT_TRUE(has_input(text, "media_rows"));
  EXPECT_FALSE(has_input(text, "last"));
  EXPECT_FALSE(has_input(*model.record_text({.media = false}), "media"));
  put_model(tests::TinyShape{});
  const Result<Model> plain = open_model(folder_);
  ASSERT_TRUE(plain) << plain.error().text;
  EXPECT_FALSE(has_input(*plain->record_text(), "media"));
  EXPECT_EQ(plain->record(ProgramKind::vision).error().text,
            folder_ + ": has no vision tower: want a model that takes pictures");
  EXPECT_EQ(plain->prepare(Sound{}).error().text, folder_ + ": has no audio tower: want a model that takes sounds");
}

TEST_F(TowersConfig, MissingTensorsAreNamed) {
  std::vector<TinyTensor> tensors = vision_tensors();
  std::erase_if(tensors, [](const TinyTensor& tensor) { return ends_with(tensor.name, "q_norm.weight"); });
  EXPECT_EQ(problem_with(vision_config(), tensors),
            ": a tensor is missing: vision_tower.encoder.layers.0.self_attn.q_norm.weight");
}

TEST_F(TowersConfig, BoundsAreWantedWhereTheConfigurationSaysSo) {
  const std::string problem = problem_with(with(vision_config(), "use_clipped_linears", true), vision_tensors());
  EXPECT_TRUE(
      starts_with(problem, ": 28 tensors are missing: vision_tower.encoder.layers.0.self_attn.q_proj.input_min"))
      << problem;
}

TEST_F(TowersConfig, WrongFieldsAreNamed) {
  const auto problem = [&](const char* name, Json value) {
    return problem_with(with(vision_config(), name, std::move(value)), vision_tensors());
  };
  EXPECT_EQ(problem("num_attention_heads", 0), "/config.json: vision_config.num_attention_heads is 0: want 1 to 4096");
  EXPECT_EQ(problem("num_attention_heads", 3),
            "/config.json: vision_config.num_attention_heads is 3: want a divisor of a fourth of the width 16");
  EXPECT_EQ(problem("head_dim", 6), "/config.json: vision_config.head_dim is 6: want a multiple of 4");
  EXPECT_EQ(problem("attention_bias", true), "/config.json: vision_config.attention_bias is true: want false");
  EXPECT_EQ(problem("hidden_activation", "relu"),
            "/config.json: vision_config.hidden_activation is \"relu\": want \"gelu_pytorch_tanh\"");
  EXPECT_EQ(problem("patch_size", 1000), "/config.json: vision_config.patch_size is 1000: want 1 to 256");
}

Picture grey(uint32_t width, uint32_t height) {
  return {.width = width, .height = height, .pixels = std::vector<uint8_t>(size_t{width} * height * 3, 127)};
}

TEST_F(TowersConfig, PicturesThatDoNotFitAreRefused) {
  const Model model = model_with(vision_config(), vision_tensors());
  EXPECT_EQ(model.prepare(grey(0, 5)).error().text, "picture: is 0 x 5: want pixels");
  EXPECT_EQ(model.prepare(grey(5, 5), {.max_rows = 5000}).error().text, "picture: rows are 5000: want at most 4096");
  // One block high and as many wide as rows are allowed: 12 of 3 patches.
  EXPECT_EQ(model.prepare(grey(4000, 10)).error().text,
            "picture: is 36 x 3 patches: want at most 20 in each direction");
  const Result<TowerInputs> fits = model.prepare(grey(40, 30));
  ASSERT_TRUE(fits) << fits.error().text;
  EXPECT_EQ(fits->rows, 12u);  // 4 x 3 blocks
  EXPECT_EQ(model.prepare(grey(40, 30), {.max_rows = 6})->rows, 4u);
}

}  // namespace
}  // namespace sluice
