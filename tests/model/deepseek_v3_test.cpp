// DeepSeek-V3: configurations that are right and wrong, experts in tensors of their own, kv_b in one piece and split.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/file.h"
#include "checkpoint/gguf_writer.h"
#include "graph/step.h"
#include "model/export.h"
#include "model/facts.h"
#include "model/synthetic.h"
#include "tests/model/tiny_model.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

const std::string kModel = std::string(SLUICE_TEST_DATA) + "/deepseek_v3";

class DeepseekV3 : public tests::TinyModel {
 protected:
  static Json own_config() { return *parse_json(*read_file(kModel + "/config.json", 1 << 20), "config.json"); }
  // The same with `value` at a path of names joined by dots.
  static Json config_with(const std::string& path, Json value) {
    Json config = own_config();
    Json* json = &config;
    for (const std::string& part : split(path, '.')) {
      auto& members = json->as_object();
      auto found = std::ranges::find_if(members, [&](const auto& member) { return member.first == part; });
      if (found == members.end()) found = members.insert(members.end(), {part, Json()});
      json = &found->second;
    }
    *json = std::move(value);
    return config;
  }
  Result<Model> open_with(const Json& config) {
    put("config.json", write_json(config));
    std::filesystem::copy_file(kModel + "/model.safetensors", path("model.safetensors"),
                               std::filesystem::copy_options::skip_existing);
    return open_model(folder_);
  }
  std::string error_with(const std::string& field, Json value) {
    const Result<Model> model = open_with(config_with(field, std::move(value)));
    if (model) return "";
    EXPECT_TRUE(starts_with(model.error().text, folder_)) << model.error().text;
    return model.error().text.substr(folder_.size());
  }

  std::string written(const GgufExport& out) const { return written_gguf(out, path("out.gguf")); }
};

TEST_F(DeepseekV3, IsReadWhenItIsRight) {
  const Result<Model> model = open_model(kModel);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_TRUE(model->unread_tensors().empty());
  const ModelFacts& facts = model->facts();
  EXPECT_EQ(facts.family, "deepseek2");
  EXPECT_EQ(facts.layers, 4u);
  EXPECT_EQ(facts.context_length, 163840u);
  const std::pair<std::string, std::string> experts = {"experts",
                                                       "16 of 32, 4 for each token from 2 of 4 groups, 1 shared"};
  EXPECT_EQ(facts.details.back(), experts);
}

TEST_F(DeepseekV3, OtherGraphsAreRefused) {
  EXPECT_EQ(error_with("scoring_func", "softmax"), "/config.json: scoring_func is \"softmax\": want \"sigmoid\"");
  EXPECT_EQ(error_with("topk_method", "greedy"), "/config.json: topk_method is \"greedy\": want \"noaux_tc\"");
  EXPECT_EQ(error_with("attention_bias", true), "/config.json: attention_bias is true: want false");
  EXPECT_EQ(error_with("moe_layer_freq", 2), "/config.json: moe_layer_freq is 2: want 1 to 1");
  EXPECT_EQ(error_with("rope_scaling.type", "linear"), "/config.json: rope_scaling.type is \"linear\": want \"yarn\"");
}

TEST_F(DeepseekV3, NumbersThatDoNotFitAreRefused) {
  EXPECT_EQ(error_with("n_group", 3), "/config.json: n_group is 3: want a divisor of the 16 experts");
  EXPECT_EQ(error_with("topk_group", 5), "/config.json: topk_group is 5: want at most 4");
  EXPECT_EQ(error_with("num_experts_per_tok", 17), "/config.json: num_experts_per_tok is 17: want at most 16");
  EXPECT_EQ(error_with("qk_rope_head_dim", 15), "/config.json: qk_rope_head_dim is 15: want an even number");
  EXPECT_EQ(error_with("first_k_dense_replace", 5), "/config.json: first_k_dense_replace is 5: want at most 4");
  EXPECT_EQ(error_with("rope_scaling.original_max_position_embeddings", Json()),
            "/config.json: rope_scaling.original_max_position_embeddings is missing or 0: want the context before it "
            "was stretched");
  const Result<Model> model = open_with(config_with("num_experts_per_tok", 9));  // of 2 groups of 4
  ASSERT_TRUE(model) << model.error().text;
  const Result<Program> program = model->record_text();
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().text.substr(folder_.size()),
            ": layer 1: route: k is 9: want at most the experts of 2 groups of 4");
}

TEST_F(DeepseekV3, TensorsMustFitTheConfig) {
  EXPECT_EQ(error_with("v_head_dim", 16),
            "/model.safetensors: model.layers.0.self_attn.kv_b_proj.weight is bf16 [256, 64]: want [192, 64]");
  EXPECT_EQ(error_with("n_routed_experts", 20),
            "/model.safetensors: model.layers.1.mlp.gate.weight is bf16 [16, 64]: want [20, 64]");
  EXPECT_EQ(error_with("moe_intermediate_size", 16),
            "/model.safetensors: model.layers.1.mlp.experts.0.gate_proj.weight is bf16 [32, 64]: want [16, 64]");
  EXPECT_EQ(error_with("q_lora_rank", Json()),
            ": 4 tensors are missing: model.layers.0.self_attn.q_proj.weight, model.layers.1.self_attn.q_proj.weight, "
            "model.layers.2.self_attn.q_proj.weight and 1 more");
}

TEST_F(DeepseekV3, DraftLayersAreLeftUnread) {
  Json config = config_with("num_hidden_layers", 3);
  for (auto& [name, value] : config.as_object())
    if (name == "num_nextn_predict_layers") value = 1;
  const Result<Model> model = open_with(config);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_TRUE(model->unknown_tensors().empty());
  EXPECT_FALSE(model->unread_tensors().empty());
}

TEST_F(DeepseekV3, RopeParametersInTheirNewPlaceAreTheSame) {
  const Model model = *open_model(kModel);
  Json config = config_with("rope_parameters", *own_config().find("rope_scaling"));
  auto& members = config.as_object();
  std::erase_if(members,
                [](const auto& member) { return member.first == "rope_scaling" || member.first == "rope_theta"; });
  for (auto& [name, value] : members)
    if (name == "rope_parameters") value.as_object().emplace_back("rope_theta", 10000.0);
  const Result<Model> moved = open_with(config);
  ASSERT_TRUE(moved) << moved.error().text;
  EXPECT_EQ(logits_of(*moved), logits_of(model));
}

// YaRN and the scale it gives the softmax can be told from plain positions.
TEST_F(DeepseekV3, StretchedPositionsMatter) {
  const Result<Model> plain = open_with(config_with("rope_scaling", Json()));
  ASSERT_TRUE(plain) << plain.error().text;
  EXPECT_NE(logits_of(*plain), logits_of(*open_model(kModel)));
}

TEST_F(DeepseekV3, StretchingNamesItsOwnMagnitude) {
  const Result<Model> model = open_with(config_with("rope_scaling.attention_factor", 1.5));
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->record_text()->ropes[0].magnitude, 1.5f);
}

TEST_F(DeepseekV3, GgufKeysOfOtherStretchingAreRefused) {
  GgufExport out = *export_gguf(*open_model(kModel), *find_mix("f32"));
  const auto type = std::ranges::find(out.keys, "deepseek2.rope.scaling.type", &GgufMetadata::Entry::name);
  ASSERT_NE(type, out.keys.end());
  type->value = std::string("linear");
  EXPECT_EQ(open_model(written(out)).error().text,
            path("out.gguf") + ": deepseek2.rope.scaling.type is linear with a factor of 40: want yarn or none");
  type->value = std::string("none");
  EXPECT_EQ(open_model(written(out))->record_text()->ropes[0].inverse_frequencies,
            open_with(config_with("rope_scaling", Json()))->record_text()->ropes[0].inverse_frequencies);
}

// Far into the context of the real configuration. From a program of its own, every step rounded to f32 as transformers
// does: f_e = base^(-2i/64), f_i = f_e / 40, ramp between pairs 10 and 23; the scale (1 + 0.1 ln 40)^2 / sqrt(192).
TEST_F(DeepseekV3, TheRealShapeTurnsAndScalesAsTheReference) {
  ShapeConfig shape = *find_shape("deepseek-v3:1:1:16");
  for (auto& [name, value] : shape.config.as_object())
    if (name == "vocab_size") value = 1024;
  const SyntheticModel made = *SyntheticModel::make(shape, *find_mix("bf16"), {});
  const std::shared_ptr<std::byte[]> memory(new std::byte[made.memory_bytes()]);
  const Model model =
      *resolve(std::make_shared<const Checkpoint>(made.checkpoint({memory.get(), made.memory_bytes()}, memory)));
  const Program program = *model.record_text();
  for (const Op& op : program.ops)
    if (const auto* attention = std::get_if<Attention>(&op)) EXPECT_FLOAT_EQ(attention->scale, 0.1352337788608801f);
  ASSERT_EQ(program.ropes.size(), 1u);
  EXPECT_EQ(program.ropes[0].pairing, Pairing::adjacent_to_halves);
  EXPECT_EQ(program.ropes[0].magnitude, 1.0f);
  ASSERT_EQ(program.ropes[0].inverse_frequencies.size(), 32u);

  struct Turn {
    size_t pair;
    float cosine, sine;
  };
  const std::pair<int32_t, std::vector<Turn>> kRows[] = {{4096,
                                                          {{0, 0.803991f, -0.594642f},
                                                           {9, 0.752179f, -0.658959f},
                                                           {11, -0.900944f, 0.433935f},
                                                           {16, -0.859322f, -0.511434f},
                                                           {22, 0.746252f, 0.665664f},
                                                           {23, 0.990691f, 0.136129f},
                                                           {31, 0.999907f, 0.013655f}}},
                                                         {163839,
                                                          {{0, 0.228685f, -0.973501f},
                                                           {9, -0.837317f, 0.546717f},
                                                           {11, 0.655086f, 0.755554f},
                                                           {16, -0.866560f, 0.499073f},
                                                           {22, -0.651817f, -0.758377f},
                                                           {23, 0.681405f, -0.731906f},
                                                           {31, 0.854501f, 0.519450f}}}};
  StepBuffer step(program, {.pages_per_sequence = std::vector<uint32_t>(program.groups.size(), 1)});
  for (const auto& [position, turns] : kRows) {
    step.reset(TokenClass::decode, text_counts(1, 0), 1, 0);
    step.positions()[0] = position;
    step.fill_ropes();
    // A frequency of another rounding is off by 2^-23 of the angle, up to 9213 here.
    for (const Turn& turn : turns) {
      EXPECT_NEAR(step.cosines(0)[turn.pair], turn.cosine, 2e-3f) << position << ", pair " << turn.pair;
      EXPECT_NEAR(step.sines(0)[turn.pair], turn.sine, 2e-3f) << position << ", pair " << turn.pair;
    }
  }
}

TEST_F(DeepseekV3, GgufKeysAreThoseOfLlamaCpp) {
  const GgufExport out = *export_gguf(*open_model(kModel), *find_mix("f32"));
  const auto number = [&](const std::string& name) -> double {
    const auto found = std::ranges::find(out.keys, "deepseek2." + name, &GgufMetadata::Entry::name);
    if (found == out.keys.end()) return -1;
    if (const auto* real = std::get_if<float>(&found->value)) return static_cast<double>(*real);
    if (const auto* flag = std::get_if<bool>(&found->value)) return *flag ? 1 : 0;
    return std::get<uint32_t>(found->value);
  };
  EXPECT_EQ(number("attention.head_count_kv"), 1);
  EXPECT_EQ(number("attention.key_length"), 80);
  EXPECT_EQ(number("attention.value_length"), 64);
  EXPECT_EQ(number("attention.key_length_mla"), 48);
  EXPECT_EQ(number("attention.value_length_mla"), 32);
  EXPECT_EQ(number("rope.dimension_count"), 16);
  EXPECT_EQ(number("rope.scaling.original_context_length"), 4096);
  EXPECT_FLOAT_EQ(static_cast<float>(number("rope.scaling.yarn_log_multiplier")), 0.1f);
  EXPECT_EQ(number("expert_gating_func"), 2);
  EXPECT_EQ(number("expert_weights_norm"), 1);
  EXPECT_EQ(number("expert_group_count"), 4);
  EXPECT_EQ(number("leading_dense_block_count"), 1);
  EXPECT_EQ(number("vocab_size"), 768);
  const auto key = std::ranges::find(out.tensors, "blk.2.attn_k_b.weight", &ExportTensor::name);
  ASSERT_NE(key, out.tensors.end());
  EXPECT_EQ(key->shape, (std::vector<int64_t>{4, 64, 32}));
}

// --- files of other converters

// Keys of a small file changed, added, or left out where the value is null.
GgufExport with_keys(GgufExport out, const std::vector<std::pair<std::string, std::optional<GgufValue>>>& changed) {
  for (const auto& [name, value] : changed) {
    const std::string key = "deepseek2." + name;
    std::erase_if(out.keys, [&](const auto& entry) { return entry.name == key; });
    if (value) out.keys.push_back({key, *value});
  }
  return out;
}

TEST_F(DeepseekV3, WidthsOfExpertsMayBeOneALayer) {
  const Model model = *open_model(kModel);
  const GgufExport out = *export_gguf(model, *find_mix("f32"));
  const std::string key = "expert_feed_forward_length";
  const auto open_with_widths = [&](const std::vector<int32_t>& widths) {
    return open_model(written(with_keys(out, {{key, GgufArray<int32_t>(widths.begin(), widths.end())}})));
  };
  const Result<Model> read = open_with_widths({0, 32, 32, 32});
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(logits_of(*read), logits_of(*open_model(written(out))));
  const std::string where = path("out.gguf") + ": deepseek2." + key;
  EXPECT_EQ(open_with_widths({0, 32, 16, 32}).error().text, where + " is 16 for layer 2: want 32, as for layer 1");
  EXPECT_EQ(open_with_widths({32, 0, 0, 0}).error().text, where + " is 0 for layer 1: want 1 to 1048576");
}

TEST_F(DeepseekV3, TheBiasOfTheRouterMayHaveAnotherName) {
  GgufExport out = *export_gguf(*open_model(kModel), *find_mix("f32"));
  const std::vector<float> want = logits_of(*open_model(written(out)));
  for (ExportTensor& tensor : out.tensors)
    if (ends_with(tensor.name, ".exp_probs_b.bias")) tensor.name.resize(tensor.name.size() - 5);
  const Result<Model> read = open_model(written(out));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(logits_of(*read), want);
}

TEST_F(DeepseekV3, NoGroupsMayBeWrittenAsZero) {
  const GgufExport out = *export_gguf(*open_model(kModel), *find_mix("f32"));
  const auto digest_with = [&](const std::optional<GgufValue>& count) {
    const Result<Model> read =
        open_model(written(with_keys(out, {{"expert_group_count", count}, {"expert_group_used_count", count}})));
    EXPECT_TRUE(read) << read.error().text;
    return read ? read->digest() : "";
  };
  EXPECT_EQ(digest_with(uint32_t{0}), digest_with(uint32_t{1}));
  EXPECT_EQ(digest_with(std::nullopt), digest_with(uint32_t{1})) << "of 16 experts nothing is assumed";
}

// The small model with as many experts as V3 has, its weights zeros that lie one over the other.
Result<Model> with_experts_of_v3(const GgufExport& out, uint32_t used) {
  constexpr uint32_t kExperts = 256, kSmallExperts = 16;
  static const std::vector<std::byte> kZeros(size_t{4} << 20);
  MadeCheckpoint made{.dialect = Dialect::gguf,
                      .name = "v3.gguf",
                      .documents = {},
                      .metadata = GgufMetadata("v3.gguf"),
                      .tensors = {},
                      .memory = std::make_shared<int>(0)};
  for (const auto& [name, value] : with_keys(out, {{"expert_count", kExperts}, {"expert_used_count", used}}).keys)
    made.metadata.add(name, value);
  for (const ExportTensor& tensor : out.tensors) {
    std::vector<int64_t> shape = tensor.shape;
    if (tensor.name.find("exp") != std::string::npos || tensor.name.find("gate_inp") != std::string::npos)
      std::ranges::replace(shape, int64_t{kSmallExperts}, int64_t{kExperts});
    size_t bytes = sizeof(float);
    for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
    made.tensors.push_back({tensor.name, Format::f32, shape, std::span(kZeros).subspan(0, bytes), 0, 0});
  }
  return resolve(std::make_shared<const Checkpoint>(make_checkpoint(std::move(made))));
}

std::pair<uint32_t, uint32_t> groups_of(const Model& model) {
  const Program program = *model.record_text();
  for (const Op& op : program.ops)
    if (const auto* route = std::get_if<Route>(&op)) return {route->groups, route->groups_used};
  return {};
}

// llama.cpp's converter left the keys out before September 2025; the reference takes 4 of 8 groups.
TEST_F(DeepseekV3, GroupsOfTheRealModelAreAssumedWhereAFileSaysNothing) {
  using Groups = std::pair<uint32_t, uint32_t>;
  const std::string count = "expert_group_count", used = "expert_group_used_count";
  const GgufExport out = *export_gguf(*open_model(kModel), *find_mix("f32"));
  const GgufExport silent = with_keys(out, {{count, std::nullopt}, {used, std::nullopt}});
  const Result<Model> model = with_experts_of_v3(silent, 8);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(groups_of(*model), Groups(8, 4));
  const std::pair<std::string, std::string> assumed = {
      kAssumed, "4 of 8 groups of experts, as the reference has it: the file does not say"};
  EXPECT_EQ(model->facts().details.back(), assumed);

  EXPECT_EQ(groups_of(*with_experts_of_v3(silent, 4)), Groups(1, 1)) << "no model of that kind is known";
  EXPECT_EQ(groups_of(*with_experts_of_v3(with_keys(out, {{count, 0u}, {used, 0u}}), 8)), Groups(1, 1)) << "it is said";
  const Model said = *with_experts_of_v3(with_keys(out, {{count, 8u}, {used, 2u}}), 8);
  EXPECT_EQ(groups_of(said), Groups(8, 2));
  EXPECT_EQ(said.facts().details.back().first, "experts");
}

TEST_F(DeepseekV3, SplitAndJointMatricesGiveTheSameLogits) {
  const Model model = *open_model(kModel);
  const std::vector<float> want = logits_of(model);
  const GgufExport split = *export_gguf(model, *find_mix("f32"));
  const Result<Model> read = open_model(written(split));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_TRUE(read->unread_tensors().empty());
  const std::vector<float> got = logits_of(*read);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;  // sums in another order

  // As older files have it: kv_b whole, keys and values counted by head.
  GgufExport joint = split;
  std::erase_if(joint.keys, [](const auto& key) { return ends_with(key.name, "_mla"); });
  for (auto& key : joint.keys) {
    if (ends_with(key.name, ".head_count_kv")) key.value = uint32_t{4};
    if (ends_with(key.name, ".key_length")) key.value = uint32_t{48};
    if (ends_with(key.name, ".value_length")) key.value = uint32_t{32};
  }
  std::erase_if(joint.tensors, [](const ExportTensor& tensor) { return tensor.name.ends_with("attn_v_b.weight"); });
  for (ExportTensor& tensor : joint.tensors) {
    if (!ends_with(tensor.name, "attn_k_b.weight")) continue;
    const StoredTensor& whole =
        *model.weights().bound(cat("layer.", tensor.name[4], ".k_b_proj"))->stored;  // of fewer than ten layers
    tensor = {.name = cat("blk.", tensor.name[4], ".attn_kv_b.weight"),
              .shape = {256, 64},
              .format = Format::f32,
              .source = {.shape = {1, 256, 64},
                         .format = whole.format,
                         .bytes = whole.bytes.data(),
                         .expert_stride = whole.bytes.size(),
                         .row_stride = whole.bytes.size() / 256,
                         .owner = {}}};
  }
  const Result<Model> older = open_model(written(joint));
  ASSERT_TRUE(older) << older.error().text;
  EXPECT_TRUE(older->unread_tensors().empty());
  EXPECT_EQ(logits_of(*older), want);
  // ik_llama.cpp's first files have both, the parts as matrices of all heads.
  GgufExport both = joint;
  for (ExportTensor tensor : split.tensors) {
    if (!ends_with(tensor.name, "attn_k_b.weight") && !ends_with(tensor.name, "attn_v_b.weight")) continue;
    tensor.shape = {tensor.shape[0] * tensor.shape[1], tensor.shape[2]};
    both.tensors.push_back(std::move(tensor));
  }
  const Result<Model> twice = open_model(written(both));
  ASSERT_TRUE(twice) << twice.error().text;
  EXPECT_TRUE(twice->unread_tensors().empty());
  EXPECT_EQ(logits_of(*twice), want);
  // Written again it stays as it is.
  const GgufExport again = *export_gguf(*older, *find_mix("f32"));
  EXPECT_EQ(again.keys.size(), joint.keys.size());
  EXPECT_EQ(again.tensors.size(), joint.tensors.size());
}

}  // namespace
}  // namespace sluice
