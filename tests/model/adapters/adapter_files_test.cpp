// Adapters as files have them: names, shapes, scales, and what is refused. Milliseconds, for each change. That factors
// are put where they belong is held by the goldens of verify (adapters in PEFT's and llama.cpp's form).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "model/adapters/adapter.h"
#include "tests/model/adapters/written_adapter.h"
#include "tests/model/text_bench.h"
#include "tests/model/written_gguf.h"
#include "tests/reference_models.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using tests::AdaptedModule;
using tests::TinyTensor;

class AdapterFiles : public tests::TinyModel {
 protected:
  AdapterFiles() {
    tests::TinyShape shape = tests::like_26b();
    put_model(shape);
    Result<Model> opened = open_model(folder_);
    EXPECT_TRUE(opened) << opened.error().text;
    model_ = std::make_unique<Model>(*std::move(opened));
  }

  std::string folder() const { return path("adapter"); }
  std::string layer(const char* name) const { return cat("model.language_model.layers.0.", name); }
  Result<std::shared_ptr<const Adapter>> open(const Json& config, const std::vector<TinyTensor>& factors) const {
    tests::write_adapter(folder(), config, factors);
    return Adapter::open(*model_, folder());
  }
  Result<std::shared_ptr<const Adapter>> open(const std::vector<TinyTensor>& factors) const {
    return open(tests::peft_config(8), factors);
  }
  std::string refusal(const Json& config, const std::vector<TinyTensor>& factors) const {
    const auto opened = open(config, factors);
    return opened ? "opened" : opened.error().text;
  }
  std::vector<TinyTensor> gate(int64_t rank = 4) const {
    return tests::peft_factors({{layer("mlp.gate_proj"), 32, 48}}, rank);
  }
  float scale(const Json& config) const {
    const auto opened = open(config, gate());
    EXPECT_TRUE(opened) << opened.error().text;
    return opened ? (*opened)->weights().at(0).scale : 0;
  }

  std::unique_ptr<Model> model_;
};

TEST_F(AdapterFiles, HaveTheScaleOfTheirConfiguration) {
  Json config = tests::peft_config(8);
  EXPECT_FLOAT_EQ(scale(config), 2.0f);  // alpha 8 over rank 4
  config.add("use_rslora", true);
  EXPECT_FLOAT_EQ(scale(config), 4.0f);
  config.add("alpha_pattern", Json::Object{{"up_proj", 100}, {"gate_proj", 6}});
  EXPECT_FLOAT_EQ(scale(config), 3.0f);
  Json by_path = tests::peft_config(8);
  by_path.add("alpha_pattern", Json::Object{{".*layers\\.0\\..*gate_proj", 2}});
  EXPECT_FLOAT_EQ(scale(by_path), 0.5f);
}

TEST_F(AdapterFiles, AreFoundByTheNamesOfOlderVersionsToo) {
  std::vector<TinyTensor> factors = gate();
  factors[0].name = cat(layer("mlp.gate_proj"), ".lora_A.default.weight");
  factors[1].name = cat(layer("mlp.gate_proj"), ".lora_B.default.weight");
  const auto opened = open(factors);
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ((*opened)->weights().at(0).weight, "layer.0.gate_proj");
  EXPECT_EQ((*opened)->rank(), 4u);
}

TEST_F(AdapterFiles, ChangeATiedHeadOrItsTable) {
  const auto head = open(tests::peft_factors({{"lm_head", 32, 96}}, 2));
  ASSERT_TRUE(head) << head.error().text;
  EXPECT_EQ((*head)->weights().at(0).weight, "embed_tokens");
  EXPECT_FALSE((*head)->weights().at(0).is_embedding);
  const std::string table = "base_model.model.model.language_model.embed_tokens.lora_embedding_";
  const auto embedding = open({{table + "A", {2, 96}}, {table + "B", {32, 2}}});
  ASSERT_TRUE(embedding) << embedding.error().text;
  EXPECT_TRUE((*embedding)->weights().at(0).is_embedding);
  EXPECT_EQ((*embedding)->factors(0).a.size(), 96u * 2u);
}

// PEFT keeps B of experts with the columns of rank 0 of all experts first.
TEST_F(AdapterFiles, TellTheFusedWeightsOfExpertsByTheirShape) {
  const std::string experts = "base_model.model." + layer("experts");
  const auto opened = open({{experts + ".base_layer.lora_A.weight", {6 * 2, 32}},
                            {experts + ".base_layer.lora_B.weight", {2 * 16, 2 * 6}},
                            {experts + ".lora_A.weight", {6 * 3, 16}},
                            {experts + ".lora_B.weight", {32, 3 * 6}}});
  ASSERT_TRUE(opened) << opened.error().text;
  std::map<std::string, uint32_t> ranks;
  for (const AdaptedWeight& weight : (*opened)->weights()) ranks[weight.weight] = weight.rank;
  const std::map<std::string, uint32_t> want = {
      {"layer.0.experts.down_proj", 3}, {"layer.0.experts.gate_proj", 2}, {"layer.0.experts.up_proj", 2}};
  EXPECT_EQ(ranks, want);
}

TEST_F(AdapterFiles, OfOtherKindsAreRefusedByName) {
  const std::pair<const char*, Json> kFields[] = {
      {"use_dora", true},
      {"modules_to_save", Json::Array{"lm_head"}},
      {"trainable_token_indices", Json::Array{1}},
      {"fan_in_fan_out", true},
      {"bias", "all"},
      {"layer_replication", Json::Array{1}},
      {"alora_invocation_tokens", Json::Array{1}},
  };
  for (const auto& [field, value] : kFields) {
    Json config = tests::peft_config(8);
    config.add(field, value);
    EXPECT_NE(refusal(config, gate()).find("want plain LoRA"), std::string::npos) << field;
  }
  EXPECT_NE(refusal(Json::Object{{"peft_type", "LOHA"}}, gate()).find("peft_type is LOHA"), std::string::npos);
  EXPECT_NE(refusal(Json::Object{{"peft_type", "LORA"}}, gate()).find("lora_alpha"), std::string::npos);
  std::vector<TinyTensor> dora = gate();
  dora.push_back({cat("base_model.model.", layer("mlp.gate_proj"), ".lora_magnitude_vector"), {48}});
  EXPECT_NE(refusal(tests::peft_config(8), dora).find("DoRA"), std::string::npos);
  std::vector<TinyTensor> whole = gate();
  whole.push_back({"base_model.model.lm_head.weight", {96, 32}});
  EXPECT_NE(refusal(tests::peft_config(8), whole).find("lm_head.weight is no factor"), std::string::npos);
}

TEST_F(AdapterFiles, ThatDoNotFitAreOneSentence) {
  const Json config = tests::peft_config(8);
  EXPECT_NE(refusal(config, tests::peft_factors({{layer("mlp.gate_proj"), 31, 48}}, 4))
                .find("want [rank, 32] and [48, rank]"),
            std::string::npos);
  EXPECT_NE(
      refusal(config, tests::peft_factors({{layer("mlp.side_proj"), 32, 48}}, 4)).find("which the model does not have"),
      std::string::npos);
  EXPECT_NE(refusal(config, tests::peft_factors({{"model.vision_tower.encoder.layers.0.mlp.up_proj", 32, 48}}, 4))
                .find("of a tower"),
            std::string::npos);
  EXPECT_NE(refusal(config, {gate()[0]}).find("has one factor: want A and B"), std::string::npos);
  EXPECT_NE(refusal(config, {}).find("has no factors"), std::string::npos);
  std::vector<TinyTensor> twice = gate();
  twice.push_back({cat(layer("mlp.gate_proj"), ".lora_A.default.weight"), {4, 32}});
  EXPECT_NE(refusal(config, twice).find("are the same factor"), std::string::npos);
  EXPECT_FALSE(Adapter::open(*model_, path("nothing")));
  EXPECT_FALSE(Adapter::open(*model_, path("model.safetensors")));
  EXPECT_FALSE(Adapter::open(*model_, folder_));
}

// mlx-lm's form of factors: [columns, rank] and [rank, rows], of experts [experts, rank, columns] and [experts, rows,
// rank].
class MlxAdapters : public AdapterFiles {
 protected:
  static Json config(double scale, const char* kind = "lora") {
    return Json::Object{{"fine_tune_type", kind},
                        {"num_layers", 16},
                        {"lora_parameters", Json::Object{{"rank", 4}, {"dropout", 0}, {"scale", scale}}}};
  }
  Result<std::shared_ptr<const Adapter>> open_mlx(const Json& config, const std::vector<TinyTensor>& factors) const {
    std::filesystem::create_directories(folder());
    EXPECT_TRUE(write_file(join_path(folder(), "adapter_config.json"), write_json(config)).ok());
    EXPECT_TRUE(write_file(join_path(folder(), "adapters.safetensors"), tests::tiny_safetensors(factors)).ok());
    return Adapter::open(*model_, folder());
  }
  std::string refusal_of(const Json& config, const std::vector<TinyTensor>& factors) const {
    const auto opened = open_mlx(config, factors);
    return opened ? "opened" : opened.error().text;
  }
  // The numbers that open_mlx() writes.
  static std::vector<std::vector<float>> numbers(const std::vector<TinyTensor>& factors) {
    uint64_t state = 42;
    std::vector<std::vector<float>> all;
    for (const TinyTensor& tensor : factors) all.push_back(tests::tiny_values(tensor, state));
    return all;
  }
  static std::vector<TinyTensor> pair(const std::string& module, std::vector<int64_t> a, std::vector<int64_t> b) {
    return {{module + ".lora_a", std::move(a)}, {module + ".lora_b", std::move(b)}};
  }
};

TEST_F(MlxAdapters, AreTransposed) {
  const std::vector<TinyTensor> factors = pair("language_model.model.layers.0.mlp.gate_proj", {32, 3}, {3, 48});
  const auto opened = open_mlx(config(20), factors);
  ASSERT_TRUE(opened) << opened.error().text;
  const AdaptedWeight& weight = (*opened)->weights().at(0);
  EXPECT_EQ(weight.weight, "layer.0.gate_proj");
  EXPECT_EQ(weight.rank, 3u);
  EXPECT_EQ(weight.scale, 20.0f);
  const std::vector<std::vector<float>> stored = numbers(factors);
  const AdapterFactors read = (*opened)->factors(0);
  ASSERT_EQ(read.a.size(), stored[0].size());
  ASSERT_EQ(read.b.size(), stored[1].size());
  for (size_t k = 0; k < 3; ++k) {
    for (size_t i = 0; i < 32; ++i) EXPECT_EQ(read.a[k * 32 + i], stored[0][i * 3 + k]);
    for (size_t i = 0; i < 48; ++i) EXPECT_EQ(read.b[i * 3 + k], stored[1][k * 48 + i]);
  }
}

TEST_F(MlxAdapters, OfExpertsAreNot) {
  const std::vector<TinyTensor> factors =
      pair("language_model.model.layers.0.experts.switch_glu.down_proj", {6, 2, 16}, {6, 32, 2});
  const auto opened = open_mlx(config(1), factors);
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ((*opened)->weights().at(0).weight, "layer.0.experts.down_proj");
  const AdapterFactors read = (*opened)->factors(0);
  EXPECT_EQ(read.a, numbers(factors)[0]);
  EXPECT_EQ(read.b, numbers(factors)[1]);
}

TEST_F(MlxAdapters, OfOtherKindsAreRefusedByName) {
  const std::string module = "language_model.model.layers.0.mlp.gate_proj";
  const std::vector<TinyTensor> gate = pair(module, {32, 3}, {3, 48});
  EXPECT_NE(refusal_of(config(20), pair(module, {3, 32}, {48, 3})).find("want [32, rank] and [rank, 48]"),
            std::string::npos);
  for (const char* kind : {"dora", "full"})
    EXPECT_NE(refusal_of(config(20, kind), gate).find(cat("fine_tune_type is ", kind, ": want lora")),
              std::string::npos);
  EXPECT_NE(refusal_of(Json::Object{{"lora_parameters", Json::Object{{"rank", 4}}}}, gate).find("scale of"),
            std::string::npos);
  EXPECT_NE(refusal_of(config(1), pair("language_model.model.embed_tokens", {96, 2}, {2, 32})).find("in MLX's form"),
            std::string::npos);
  std::vector<TinyTensor> more = gate;
  more.push_back({module + ".m", {48}});
  EXPECT_NE(refusal_of(config(1), more).find("is no factor"), std::string::npos);
  std::filesystem::remove(join_path(folder(), "adapters.safetensors"));
  const auto without = Adapter::open(*model_, folder());
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().text.find("want adapters.safetensors"), std::string::npos);
}

// llama.cpp's form of the same adapter has the factors in f32, heads in another order, and experts apart.
TEST(AdapterForms, OfLlamaCppAndOfPeftAreTheSame) {
  const std::string models = reference_models();
  if (models.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: llama.cpp's adapters were not read";
  for (const char* name : {"gemma4_dense", "gemma4_moe", "qwen3_5_moe"}) {
    const std::string folder = join_path(models, name);
    const Model stored = unwrap(open_model(folder));
    const std::string file = cat(testing::TempDir(), getpid(), "_adapter_forms.gguf");
    const Model converted = unwrap(open_model(written_gguf(unwrap(export_gguf(stored, *find_mix("bf16"))), file)));
    std::filesystem::remove(file);
    for (const Model& model : {stored, converted}) {
      SCOPED_TRACE(model.checkpoint().path());
      const auto peft = unwrap(Adapter::open(model, join_path(folder, "lora_a")));
      const auto gguf = unwrap(Adapter::open(model, join_path(folder, "lora_a.gguf")));
      ASSERT_EQ(peft->weights().size(), gguf->weights().size());
      EXPECT_NE(peft->digest(), gguf->digest());
      for (size_t i = 0; i < peft->weights().size(); ++i) {
        const AdaptedWeight& want = peft->weights()[i];
        const auto same = [&](const AdaptedWeight& one) { return one.weight == want.weight; };
        const auto found = std::ranges::find_if(gguf->weights(), same);
        ASSERT_NE(found, gguf->weights().end()) << want.weight;
        EXPECT_EQ(found->scale, want.scale) << want.weight;
        const AdapterFactors a = peft->factors(i);
        const AdapterFactors b = gguf->factors(static_cast<size_t>(found - gguf->weights().begin()));
        EXPECT_EQ(a.a, b.a) << want.weight;
        EXPECT_EQ(a.b, b.b) << want.weight;
      }
    }
  }
}

}  // namespace
}  // namespace sluice
