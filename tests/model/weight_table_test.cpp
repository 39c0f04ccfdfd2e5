// Weights found in checkpoints of both dialects, and what is said when they are not.
#include <gtest/gtest.h>

#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"
#include "tests/reference_models.h"

namespace sluice {
namespace {

using tests::like_26b;
using tests::like_e4b;
using tests::tiny_config;
using tests::tiny_safetensors;
using tests::tiny_tensors;
using tests::TinyShape;
using tests::TinyTensor;

class Weights : public tests::TinyModel {
 protected:
  std::string error_with(const std::vector<TinyTensor>& tensors, const TinyShape& shape = {}) {
    put_model(tiny_config(shape), tensors);
    const Result<Model> model = open_model(folder_);
    return model ? "" : model.error().text;
  }
  static TinyTensor& find(std::vector<TinyTensor>& tensors, const std::string& name) {
    return *std::ranges::find(tensors, "model.language_model." + name, &TinyTensor::name);
  }
};

TEST_F(Weights, AMissingTensorIsNamed) {
  std::vector<TinyTensor> tensors = tiny_tensors({});
  std::erase_if(tensors, [](const auto& t) { return ends_with(t.name, "layers.1.mlp.up_proj.weight"); });
  EXPECT_EQ(error_with(tensors), folder_ + ": a tensor is missing: model.language_model.layers.1.mlp.up_proj.weight");
}

TEST_F(Weights, OfManyMissingTensorsThreeAreNamed) {
  std::vector<TinyTensor> tensors = tiny_tensors({});
  std::erase_if(tensors, [](const auto& t) { return t.name.find("layers.2.") != std::string::npos; });
  EXPECT_EQ(error_with(tensors), folder_ +
                                     ": 14 tensors are missing: model.language_model.layers.2.input_layernorm.weight, "
                                     "model.language_model.layers.2.self_attn.q_proj.weight, "
                                     "model.language_model.layers.2.self_attn.q_norm.weight and 11 more");
}

TEST_F(Weights, AnotherShapeIsRefused) {
  std::vector<TinyTensor> tensors = tiny_tensors({});
  find(tensors, "layers.0.self_attn.q_proj.weight").shape = {64, 31};
  EXPECT_EQ(error_with(tensors), path("model.safetensors") +
                                     ": model.language_model.layers.0.self_attn.q_proj.weight is f32 [64, 31]: want "
                                     "[64, 32]");
  tensors = tiny_tensors(like_26b());
  find(tensors, "layers.0.experts.gate_up_proj").shape = {6, 16, 32};
  EXPECT_EQ(error_with(tensors, like_26b()),
            path("model.safetensors") +
                ": model.language_model.layers.0.experts.gate_up_proj is f32 [6, 16, 32]: want [6, 32, 32]");
}

TEST_F(Weights, AFormatThatIsNotComputedWithIsRefusedByName) {
  put_model({});
  std::string file = tiny_safetensors(tiny_tensors({}));
  for (size_t at = file.find("\"F32\""); at != std::string::npos; at = file.find("\"F32\"")) file[at + 1] = 'I';
  put("model.safetensors", file);
  EXPECT_EQ(open_model(folder_).error().text,
            path("model.safetensors") +
                ": model.language_model.embed_tokens.weight is i32: want a format that is computed with");
}

TEST_F(Weights, ScalarsMayHaveNoDimension) {
  std::vector<TinyTensor> tensors = tiny_tensors({});
  find(tensors, "layers.0.layer_scalar").shape = {};
  EXPECT_EQ(error_with(tensors), "");
}

TEST_F(Weights, OlderPrefixesAreKnown) {
  for (const std::string prefix : {"language_model.model.", "model.", "language_model."}) {
    std::vector<TinyTensor> tensors = tiny_tensors({});
    for (TinyTensor& tensor : tensors) tensor.name.replace(0, std::string("model.language_model.").size(), prefix);
    EXPECT_EQ(error_with(tensors), "") << prefix;
  }
}

TEST_F(Weights, OneWeightUnderTwoNamesIsRefused) {
  std::vector<TinyTensor> tensors = tiny_tensors({});
  tensors.push_back({"model.norm.weight", {32}});
  EXPECT_EQ(error_with(tensors), folder_ +
                                     ": model.language_model.norm.weight and model.norm.weight are the same weight: "
                                     "want one of them");
}

TEST_F(Weights, TowersAreKnownAndStrangersReported) {
  std::vector<TinyTensor> tensors = tiny_tensors({});
  tensors.push_back({"model.vision_tower.std_bias", {8}});
  tensors.push_back({"model.language_model.layers.0.extra.weight", {8}});
  EXPECT_EQ(error_with(tensors), "");
  const Result<Model> model = open_model(folder_);
  EXPECT_EQ(model->unknown_tensors(), std::vector<std::string>{"model.language_model.layers.0.extra.weight"});
  EXPECT_EQ(model->unread_tensors().size(), 2u);
}

TEST_F(Weights, KeysThatSharedLayersCarryAreNoStrangers) {
  std::vector<TinyTensor> tensors = tiny_tensors(like_e4b());
  tensors.push_back({"model.language_model.layers.8.self_attn.k_proj.weight", {64, 32}});
  EXPECT_EQ(error_with(tensors, like_e4b()), "");
  EXPECT_TRUE(open_model(folder_)->unknown_tensors().empty());
}

TEST_F(Weights, PartsOfAFusedTensorAreItsRows) {
  put_model(like_26b());
  const Result<Model> model = open_model(folder_);
  ASSERT_TRUE(model) << model.error().text;
  const Result<TensorSource> gate = model->weights().find("layer.0.experts.gate_proj");
  const Result<TensorSource> up = model->weights().find("layer.0.experts.up_proj");
  EXPECT_EQ(gate->shape, (WeightShape{6, 16, 32}));
  EXPECT_EQ(gate->expert_stride, 32u * 32 * 4);
  EXPECT_EQ(up->bytes - gate->bytes, 16 * 32 * 4);
  EXPECT_EQ(model->weights().find("layer.9.q_proj").error().text, "the model has no weight layer.9.q_proj");
}

// Every tensor of the reference models is a weight, a tower's or known to be unused: in all three dialects.
TEST(ReferenceModels, LeaveNoTensorUnknown) {
  const std::string models = reference_models();
  if (models.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: its tensor names were not looked at";
  const std::pair<const char*, size_t> expected[] = {{"gemma4", 0},
                                                     {"gemma4_dense", 31},
                                                     {"gemma4_moe", 0},
                                                     {"peer/gemma4_dense-bf16.gguf", 0},
                                                     {"peer/gemma4_moe-bf16.gguf", 0},
                                                     {"peer/gemma4-q4_k_m.gguf", 0},
                                                     {"peer/gemma4-q6_k.gguf", 0},
                                                     {"peer/gemma4_dense-q4_k_m.gguf", 0},
                                                     {"peer/gemma4_moe-q4_k_m.gguf", 0}};
  for (const auto& [name, towers] : expected) {
    const Result<Model> model = open_model(cat(models, "/", name));
    ASSERT_TRUE(model) << model.error().text;
    EXPECT_TRUE(model->unknown_tensors().empty()) << name << ": " << model->unknown_tensors().front();
    EXPECT_TRUE(towers == 0 || model->tower_tensors().size() == towers) << name;
  }
}

}  // namespace
}  // namespace sluice
