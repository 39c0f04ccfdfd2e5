// Shapes of real models and the synthetic models made from them.
#include "model/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/cost.h"
#include "model/family.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

using testing::HasSubstr;

SyntheticModel synthetic(const std::string& shape, const char* mix = "q4_k_m", const Routing& routing = {}) {
  Result<ShapeConfig> config = find_shape(shape);
  EXPECT_TRUE(config) << config.error().text;
  Result<SyntheticModel> model = SyntheticModel::make(*config, *find_mix(mix), routing);
  EXPECT_TRUE(model) << model.error().text;
  return *std::move(model);
}

// The same with a small vocabulary and few experts.
SyntheticModel small(const std::string& shape) {
  Result<ShapeConfig> config = find_shape(shape);
  EXPECT_TRUE(config) << config.error().text;
  for (auto& [name, value] : config->config.as_object()) {
    if (name == "vocab_size") value = 1024;
    if (name == "num_experts") value = 16;
  }
  return *SyntheticModel::make(*config, *find_mix("q2_k"), {});
}

// Over memory in which only the small tensors are filled.
Result<Model> headers_of(const SyntheticModel& model) {
  constexpr uint64_t kSmall = 1 << 16;
  const std::shared_ptr<std::byte[]> memory(new std::byte[model.memory_bytes()]);
  auto checkpoint = std::make_shared<const Checkpoint>(model.checkpoint({memory.get(), model.memory_bytes()}, memory));
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    const StoredTensor& tensor = checkpoint->tensors()[i];
    if (tensor.bytes.size() < kSmall) model.fill(i, 0, {memory.get() + tensor.offset, tensor.bytes.size()});
  }
  return resolve(std::move(checkpoint));
}

uint64_t parameters(const std::string& shape) {
  const SyntheticModel model = synthetic(shape, "bf16");
  uint64_t sum = 0;
  for (const SyntheticModel::Tensor& tensor : model.tensors()) {
    uint64_t elements = 1;
    for (const int64_t n : tensor.shape) elements *= static_cast<uint64_t>(n);
    sum += elements;
  }
  return sum;
}

// What the models' names and pages say, of the text model alone.
TEST(Shapes, HaveTheParametersOfTheirModels) {
  const std::pair<const char*, double> kBillions[] = {
      {"gemma4-e2b", 4.65},      {"gemma4-e4b", 7.5},        {"gemma4-12b", 11.9},       {"gemma4-26b-a4b", 25.2},
      {"gemma4-31b", 30.7},      {"qwen3.5-0.8b", 0.752},    {"qwen3.5-2b", 1.88},       {"qwen3.5-4b", 4.21},
      {"qwen3.5-9b", 8.95},      {"qwen3.5-27b", 26.9},      {"qwen3.6-27b", 26.9},      {"qwen3.5-35b-a3b", 34.7},
      {"qwen3.6-35b-a3b", 34.7}, {"qwen3.5-122b-a10b", 122}, {"qwen3.5-397b-a17b", 396}, {"deepseek-v3", 671},
  };
  EXPECT_EQ(std::size(kBillions), all_shapes().size());
  for (const auto& [name, billions] : kBillions)
    EXPECT_NEAR(static_cast<double>(parameters(name)) / 1e9, billions, billions * 0.01) << name;
}

TEST(Shapes, AreCutDownByNumbersBehindTheirNames) {
  EXPECT_EQ(synthetic("gemma4-31b:1").tensors().size(), 17u);
  const Result<ShapeConfig> cut = find_shape("deepseek-v3:4:1:16");
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->config.find("num_hidden_layers")->as_integer(), 4);
  EXPECT_EQ(cut->config.find("first_k_dense_replace")->as_integer(), 1);
  EXPECT_EQ(cut->config.find("n_routed_experts")->as_integer(), 16);
  EXPECT_EQ(cut->config.find("n_group")->as_integer(), 8);
  EXPECT_EQ(find_shape("deepseek-v3:2:0:4")->config.find("n_group")->as_integer(), 1);
  EXPECT_EQ(find_shape("gemma4-e2b:10")->config.find("num_kv_shared_layers")->as_integer(), 5);
  EXPECT_EQ(find_shape("gemma4-e2b:3")->config.find("num_kv_shared_layers")->as_integer(), 0);
}

TEST(Shapes, RefuseWhatTheyDoNotHave) {
  EXPECT_THAT(find_shape("gpt-5").error().text, HasSubstr("shape gpt-5: no such shape: want one of gemma4-e2b, "));
  EXPECT_EQ(find_shape("gemma4-e2b:36").error().text, "shape gemma4-e2b:36: found 36: want 1 to 35 layers");
  EXPECT_EQ(find_shape("gemma4-e2b:x").error().text, "shape gemma4-e2b:x: found x: want 1 to 35 layers");
  EXPECT_EQ(find_shape("gemma4-e2b:").error().text, "shape gemma4-e2b:: found : want 1 to 35 layers");
  EXPECT_EQ(find_shape("gemma4-e2b:4:1").error().text,
            "shape gemma4-e2b:4:1: found 2 numbers: want gemma4-e2b[:layers]");
  EXPECT_EQ(find_shape("deepseek-v3:2:3").error().text, "shape deepseek-v3:2:3: found 3: want 0 to 2 dense layers");
}

TEST(Shapes, ResolveToTheirModels) {
  for (const ModelShape& shape : all_shapes()) {
    const bool grouped = std::string_view(shape.name) == "deepseek-v3";
    const Result<Model> model = headers_of(small(cat(shape.name, grouped ? ":2:1:16" : ":6")));
    ASSERT_TRUE(model) << model.error().text;
    EXPECT_EQ(model->facts().layers, grouped ? 2u : 6u);
    EXPECT_TRUE(model->unread_tensors().empty()) << shape.name;
    EXPECT_TRUE(model->record_text()) << shape.name;
  }
}

// The formats, tensor by tensor, are those of a converted file: of the head, a value projection and a down projection.
// What Gemma 4's and Qwen3.5's towers have by their configurations, with the projection to the text.
TEST(Shapes, HaveTheTowersOfTheirModels) {
  const auto towers = [](const char* name) { return SyntheticModel::make_towers(*find_shape(name)); };
  const auto millions = [](const SyntheticModel& model, const char* first) {
    double sum = 0;
    for (const SyntheticModel::Tensor& tensor : model.tensors()) {
      double elements = tensor.name.starts_with(first) ? 1e-6 : 0;
      for (const int64_t side : tensor.shape) elements *= static_cast<double>(side);
      sum += elements;
    }
    return sum;
  };
  const Result<SyntheticModel> gemma = towers("gemma4-e2b"), qwen = towers("qwen3.5-9b");
  ASSERT_TRUE(gemma) << gemma.error().text;
  ASSERT_TRUE(qwen) << qwen.error().text;
  EXPECT_NEAR(millions(*gemma, "v."), 167, 2);   // 16 x (4 x 768 x 768 + 3 x 768 x 3072), 2 x 10240 x 768
  EXPECT_NEAR(millions(*qwen, "v."), 415, 5);    // 27 x (4 x 1152 x 1152 + 2 x 1152 x 4304), 2304 x 1152
  EXPECT_NEAR(millions(*qwen, "mm."), 40.1, 1);  // 4608 x 4608 + 4608 x 4096
  EXPECT_EQ(towers("deepseek-v3:1:1:16").error().text,
            "shape deepseek-v3:1:1:16: its towers are not known: want another shape");
}

TEST(Synthetic, HasTheFormatsOfAConvertedFile) {
  const SyntheticModel model = synthetic("gemma4-e2b");
  const auto format = [&](const char* name) {
    for (const auto& tensor : model.tensors())
      if (tensor.name == name) return std::string(format_name(tensor.format));
    return std::string("missing");
  };
  EXPECT_EQ(format("token_embd.weight"), "q6_k");
  EXPECT_EQ(format("blk.0.ffn_down.weight"), "q6_k");
  EXPECT_EQ(format("blk.5.ffn_down.weight"), "q4_k");
  EXPECT_EQ(format("blk.5.attn_q.weight"), "q4_k");
  EXPECT_EQ(format("per_layer_model_proj.weight"), "bf16");
  EXPECT_EQ(format("rope_freqs.weight"), "f32");
}

// Of one token at position 0, in gigabytes.
double weights_read(const std::string& shape) {
  const SyntheticModel made = synthetic(shape);
  const Result<Model> model = headers_of(made);
  EXPECT_TRUE(model) << model.error().text;
  const Program program = *model->record_text();
  CostFacts facts{.program = &program, .state_bytes = std::vector<double>(program.states.size(), 1.0)};
  for (const WeightDecl& weight : program.weights) facts.formats.push_back(model->weights().find(weight.name)->format);
  uint64_t bytes = 0;
  for (uint32_t op = 0; op < program.ops.size(); ++op) bytes += op_cost(facts, op, {{{0, 1}}}).weight_bytes;
  return static_cast<double>(bytes) / 1e9;
}

// Figures counted from the models' q4_k_m files; a count differs by 0.2 % with the vectors in it or not.
TEST(Synthetic, ATokenReadsWhatTheModelsFilesMakeItRead) {
  EXPECT_NEAR(weights_read("gemma4-e2b") / 1.474, 1, 0.003);
  EXPECT_NEAR(weights_read("gemma4-26b-a4b") / 2.590, 1, 0.003);
}

TEST(Synthetic, FillsTheSameBytesInPiecesOfAnySize) {
  const SyntheticModel model = synthetic("gemma4-26b-a4b:1", "q8_0", {.exponent = 1.0});
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    const uint64_t bytes = std::min<uint64_t>(model.tensors()[i].bytes, 600000);
    std::vector<std::byte> whole(bytes), pieces(bytes);
    model.fill(i, 0, whole);
    for (uint64_t first = 0; first < bytes; first += 77772)
      model.fill(i, first, std::span(pieces).subspan(first, std::min<uint64_t>(77772, bytes - first)));
    EXPECT_EQ(whole, pieces) << model.tensors()[i].name;
  }
}

TEST(Routing, SharesFollowTheLawAsFarAsNormalLogitsCan) {
  const std::vector<double> shares = chosen_shares({.exponent = 1.0}, 128, 8);
  double sum = 0;
  for (const double share : shares) sum += share;
  EXPECT_NEAR(sum, 8, 1e-6);
  EXPECT_EQ(shares[0], kMostChosen);
  EXPECT_NEAR(shares[99] / shares[49], 0.5, 1e-9);
  EXPECT_NEAR(chosen_shares({}, 128, 8)[127], 8.0 / 128, 1e-9);
}

TEST(Routing, SharesFollowWhatWasRecorded) {
  const std::vector<double> shares = chosen_shares({.recorded = {9, 3, 2, 1, 1, 1}}, 6, 1);
  EXPECT_EQ(shares[0], kMostChosen);
  EXPECT_NEAR(shares[1] / shares[3], 3, 1e-9);
  EXPECT_NEAR(shares[1] + shares[2] + 3 * shares[5], 0.6, 1e-6);
}

TEST(Routing, IsReadFromItsName) {
  EXPECT_EQ(parse_routing("uniform")->exponent, 0);
  EXPECT_EQ(parse_routing("zipf:1.25")->exponent, 1.25);
  EXPECT_EQ(parse_routing("zipf:-1").error().text, "routing zipf:-1: want uniform, or zipf:S with S from 0 to 4");
  EXPECT_FALSE(parse_routing("zipf"));
}

}  // namespace
}  // namespace sluice
