// Qwen3.5: what its configuration says, which weights it reads from which source, and how GGUF files of it are written.
// Its numbers are held by the goldens (tests/app) and, conversation by conversation, by tests/engine.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "checkpoint/gguf_writer.h"
#include "model/export.h"
#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

const std::string kModel = std::string(SLUICE_TEST_DATA) + "/qwen3_5_moe";

// Heads of the model's delta nets, from its config.json.
constexpr uint32_t kKeyHeads = 2, kPerKeyHead = 2, kHeadDim = 32, kHidden = 64;

Result<Model> opened(const std::string& path) {
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  return resolve(std::make_shared<const Checkpoint>(std::move(checkpoint)));
}

std::vector<float> decoded(Format format, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / row_bytes(format, 1));
  decode_row(format, bytes.data(), values.data(), values.size());
  return values;
}

class Qwen35 : public tests::TinyModel {
 protected:
  // The model of tests/data with a changed config.json.
  Result<Model> with(const std::string& from, const std::string& to) {
    std::string config = *read_file(kModel + "/config.json", 1u << 20);
    const size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
    put("config.json", config);
    std::filesystem::create_symlink(std::filesystem::absolute(kModel + "/model.safetensors"),
                                    path("model.safetensors"));
    return opened(folder_);
  }
  std::string problem(const std::string& from, const std::string& to) {
    const Result<Model> model = with(from, to);
    return model ? "" : model.error().text.substr(folder_.size());
  }
  // Written as GGUF, with keys changed.
  Result<Model> exported(const std::vector<GgufMetadata::Entry>& changed,
                         const std::vector<std::string>& more_tensors) {
    TRY(const Model model, opened(kModel));
    TRY(const GgufExport out, export_gguf(model, *find_mix("bf16")));
    ThreadPool pool(1);
    GgufWriter writer;
    for (const auto& key : out.keys) {
      const auto other = std::ranges::find(changed, key.name, &GgufMetadata::Entry::name);
      writer.add_key(key.name, other == changed.end() ? key.value : other->value);
    }
    for (const auto& key : changed)
      if (std::ranges::find(out.keys, key.name, &GgufMetadata::Entry::name) == out.keys.end())
        writer.add_key(key.name, key.value);
    for (const ExportTensor& tensor : out.tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
    for (const std::string& name : more_tensors) writer.add_tensor(name, Format::f32, {1});
    TRY(AtomicFile file, AtomicFile::create(path("out.gguf")));
    TRY_STATUS(writer.begin(file));
    for (const ExportTensor& tensor : out.tensors)
      TRY_STATUS(convert_rows(tensor, pool, [&](auto piece) { return writer.write(piece); }));
    for (size_t i = 0; i < more_tensors.size(); ++i) TRY_STATUS(writer.write(std::vector<std::byte>(4)));
    writer.finish();
    TRY_STATUS(file.commit());
    return opened(path("out.gguf"));
  }
};

TEST_F(Qwen35, SaysWhatItIs) {
  const Result<Model> model = opened(kModel);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->facts().family, "qwen35moe");
  EXPECT_EQ(model->facts().layers, 4u);
  EXPECT_EQ(model->facts().vocabulary, 768u);
  EXPECT_EQ(model->facts().details[0].second, "3 layers of gated delta net, 1 full");
  EXPECT_EQ(model->unknown_tensors(), std::vector<std::string>{});
  EXPECT_EQ(model->unread_tensors(), std::vector<std::string>{});
  EXPECT_EQ(model->tower_tensors().size(), 33u);
}

TEST_F(Qwen35, RefusesWhatItCannotBe) {
  EXPECT_EQ(problem("\"attn_output_gate\": true", "\"attn_output_gate\": false"),
            "/config.json: text_config.attn_output_gate is false: want true");
}
TEST_F(Qwen35, RefusesHeadsThatDoNotDivide) {
  EXPECT_EQ(problem("\"linear_num_value_heads\": 4", "\"linear_num_value_heads\": 5"),
            "/config.json: text_config.linear_num_value_heads is 5: want a multiple of the 2 key heads");
}
TEST_F(Qwen35, RefusesAnOddNumberOfTurningElements) {
  EXPECT_EQ(problem("\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 0.05"),
            "/config.json: text_config.head_dim turns 3 of 64 elements: want an even number of them");
}
TEST_F(Qwen35, RefusesAnotherActivation) {
  EXPECT_EQ(problem("\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\""),
            "/config.json: text_config.hidden_act is \"gelu\": want \"silu\"");
}
TEST_F(Qwen35, WhetherTheHeadIsTiedMayBeSaidAtTheRoot) {
  Json config = *parse_json(*read_file(kModel + "/config.json", 1u << 20), "config.json");
  for (auto& [name, text] : config.as_object())
    if (name == "text_config")
      std::erase_if(text.as_object(), [](const auto& member) { return member.first == "tie_word_embeddings"; });
  std::erase_if(config.as_object(), [](const auto& member) { return member.first == "tie_word_embeddings"; });
  config.as_object().emplace_back("tie_word_embeddings", true);
  put("config.json", write_json(config));
  std::filesystem::create_symlink(std::filesystem::absolute(kModel + "/model.safetensors"), path("model.safetensors"));
  const Result<Model> model = opened(folder_);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->weights().bound("lm_head"), nullptr);
}
TEST_F(Qwen35, LayersFollowTheIntervalWhereTheirTypesAreMissing) {
  const Result<Model> model = with("\"layer_types\"", "\"layer_types_that_nobody_reads\"");
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->facts().details[0].second, "3 layers of gated delta net, 1 full");
}

// llama.cpp's order of the value heads: all first members of the groups, then all second ones.
TEST_F(Qwen35, GgufHasValueHeadsTiledAndNormsPlusOne) {
  const Result<Model> model = opened(kModel);
  ASSERT_TRUE(model);
  const Result<GgufExport> out = export_gguf(*model, *find_mix("f32"));
  ASSERT_TRUE(out) << out.error().text;
  const auto values = [&](const std::string& name) {
    const auto tensor = std::ranges::find(out->tensors, name, &ExportTensor::name);
    EXPECT_NE(tensor, out->tensors.end()) << name;
    EXPECT_EQ(tensor->format, Format::f32) << name;
    ThreadPool pool(1);
    std::vector<std::byte> bytes;
    EXPECT_TRUE(convert_rows(*tensor, pool, [&](std::span<const std::byte> piece) -> Status {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return {};
    }));
    return decoded(Format::f32, bytes);
  };
  const auto stored = [&](const std::string& name) {
    const StoredTensor* tensor = model->checkpoint().find("model.language_model.layers.0." + name);
    EXPECT_NE(tensor, nullptr) << name;
    return decoded(tensor->format, tensor->bytes);
  };
  const std::vector<float> norm = values("blk.0.attn_norm.weight"), norm_stored = stored("input_layernorm.weight");
  for (size_t i = 0; i < norm.size(); ++i) EXPECT_EQ(norm[i], 1.0f + norm_stored[i]);
  EXPECT_EQ(values("blk.0.ssm_norm.weight"), stored("linear_attn.norm.weight"));

  const std::vector<float> rate = values("blk.0.ssm_a"), log = stored("linear_attn.A_log");
  const std::vector<float> bias = values("blk.0.ssm_dt.bias"), bias_stored = stored("linear_attn.dt_bias");
  const std::vector<float> qkv = values("blk.0.attn_qkv.weight"), qkv_stored = stored("linear_attn.in_proj_qkv.weight");
  const std::vector<float> conv = values("blk.0.ssm_conv1d.weight"), conv_stored = stored("linear_attn.conv1d.weight");
  const std::vector<float> out_proj = values("blk.0.ssm_out.weight"),
                           out_stored = stored("linear_attn.out_proj.weight");
  constexpr uint32_t kKeys = 2 * kKeyHeads * kHeadDim, kHeads = kKeyHeads * kPerKeyHead, kValues = kHeads * kHeadDim;
  EXPECT_EQ(qkv.size(), (kKeys + kValues) * kHidden);
  for (uint32_t row = 0; row < kKeys; ++row) EXPECT_EQ(qkv[row * kHidden + 5], qkv_stored[row * kHidden + 5]);
  for (uint32_t group = 0; group < kKeyHeads; ++group)
    for (uint32_t member = 0; member < kPerKeyHead; ++member) {
      const uint32_t here = member * kKeyHeads + group, there = group * kPerKeyHead + member;
      EXPECT_FLOAT_EQ(rate[here], -std::exp(log[there]));
      EXPECT_EQ(bias[here], bias_stored[there]);
      for (uint32_t i = 0; i < kHeadDim; ++i) {
        const uint32_t row = here * kHeadDim + i, row_stored = there * kHeadDim + i;
        EXPECT_EQ(qkv[(kKeys + row) * kHidden + 7], qkv_stored[(kKeys + row_stored) * kHidden + 7]);
        EXPECT_EQ(conv[(kKeys + row) * 4 + 1], conv_stored[(kKeys + row_stored) * 4 + 1]);
        EXPECT_EQ(out_proj[3 * kValues + row], out_stored[3 * kValues + row_stored]);
      }
    }
}

TEST_F(Qwen35, GgufHasTheKeysThatLlamaCppWants) {
  const Result<Model> model = opened(kModel);
  const Result<GgufExport> out = export_gguf(*model, *find_mix("q8_0"));
  ASSERT_TRUE(out);
  const auto value = [&](const std::string& name) {
    const auto key = std::ranges::find(out->keys, name, &GgufMetadata::Entry::name);
    EXPECT_NE(key, out->keys.end()) << name;
    return key == out->keys.end() ? GgufValue() : key->value;
  };
  EXPECT_EQ(value("general.architecture"), GgufValue(std::string("qwen35moe")));
  EXPECT_EQ(value("qwen35moe.rope.dimension_sections"), GgufValue(GgufArray<int32_t>{4, 2, 2, 0}));
  EXPECT_EQ(value("qwen35moe.rope.dimension_count"), GgufValue(16u));
  EXPECT_EQ(value("qwen35moe.full_attention_interval"), GgufValue(4u));
  EXPECT_EQ(value("qwen35moe.attention.recurrent_layers"), GgufValue(GgufArray<bool>{true, true, true, false}));
  EXPECT_EQ(value("qwen35moe.ssm.conv_kernel"), GgufValue(4u));
  EXPECT_EQ(value("qwen35moe.ssm.state_size"), GgufValue(32u));
  EXPECT_EQ(value("qwen35moe.ssm.group_count"), GgufValue(2u));
  EXPECT_EQ(value("qwen35moe.ssm.time_step_rank"), GgufValue(4u));
  EXPECT_EQ(value("qwen35moe.ssm.inner_size"), GgufValue(128u));
  EXPECT_EQ(value("qwen35moe.expert_shared_feed_forward_length"), GgufValue(64u));
  for (const ExportTensor& tensor : out->tensors)
    if (tensor.name.find("conv1d") != std::string::npos || tensor.name.find("inp") != std::string::npos)
      EXPECT_EQ(tensor.format, Format::f32) << tensor.name;
}

TEST_F(Qwen35, AFileWithBlocksOfMultiTokenPredictionIsReadWithoutThem) {
  const Result<Model> model =
      exported({{"qwen35moe.block_count", 5u},
                {"qwen35moe.nextn_predict_layers", 1u},
                {"qwen35moe.attention.recurrent_layers", GgufArray<bool>{true, true, true, false, false}}},
               {"blk.4.nextn.eh_proj.weight", "v.patch_embd.weight", "mtp.fc.weight"});
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->facts().layers, 4u);
  EXPECT_EQ(model->unread_tensors().size(), 3u);
  EXPECT_EQ(model->unknown_tensors(), std::vector<std::string>{});
}

TEST_F(Qwen35, NamesAStateSizeThatDoesNotFit) {
  const Result<Model> model = exported({{"qwen35moe.ssm.inner_size", 130u}}, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().text.substr(folder_.size()),
            "/out.gguf: qwen35moe.ssm.inner_size is 130: want a multiple of the 4 value heads");
}

// --- positions that are stretched

// Of 16 turning elements, base 1e7, four times 256 positions; by the formula of rope_test.cpp.
constexpr float kStretched[] = {1.0f,
                                0.08334508951020775f,
                                0.004445698525097307f,
                                0.0005928434264154138f,
                                7.905694150420948e-05f,
                                1.0542412585714556e-05f,
                                1.4058533129758728e-06f,
                                1.8747355233311396e-07f};

void expect_stretched(const Model& model, float magnitude) {
  const Result<Program> program = model.record_text();
  ASSERT_TRUE(program) << program.error().text;
  ASSERT_EQ(program->ropes.size(), 1u);
  EXPECT_FLOAT_EQ(program->ropes[0].magnitude, magnitude);
  const std::vector<float>& got = program->ropes[0].inverse_frequencies;
  ASSERT_EQ(got.size(), std::size(kStretched));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], kStretched[i], 1e-6f * kStretched[i]) << i;
}

constexpr float kUsual = 1.138629436111989f;  // 1 + 0.1 ln 4
constexpr const char* kPlain = "\"rope_type\": \"default\"";
constexpr const char* kYarn = R"("rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256)";

TEST_F(Qwen35, YarnOfAFolderIsComputed) {
  const Result<Model> model = with(kPlain, kYarn);
  ASSERT_TRUE(model) << model.error().text;
  expect_stretched(*model, kUsual);
  const std::pair<std::string, std::string> positions = {"positions", "YaRN, 4 times 256 positions"};
  EXPECT_EQ(model->facts().details[2], positions);
  EXPECT_NE(model->digest(), opened(kModel)->digest()) << "or states of one would serve the other";
  const Result<GgufExport> out = export_gguf(*model, *find_mix("f32"));
  ASSERT_TRUE(out);
  const auto key = std::ranges::find(out->keys, "qwen35moe.rope.scaling.type", &GgufMetadata::Entry::name);
  ASSERT_NE(key, out->keys.end());
  EXPECT_EQ(key->value, GgufValue(std::string("yarn")));
  const Model again = *opened(written_gguf(*out, path("out.gguf")));
  expect_stretched(again, kUsual);
}

TEST_F(Qwen35, YarnMayNameItsOwnMagnitude) {
  const Result<Model> model = with(kPlain, cat(kYarn, R"(, "attention_factor": 1.5)"));
  ASSERT_TRUE(model) << model.error().text;
  expect_stretched(*model, 1.5f);
  expect_stretched(*opened(written_gguf(*export_gguf(*model, *find_mix("f32")), path("out.gguf"))), 1.5f);
}

TEST_F(Qwen35, YarnKeysOfGgufWereIgnored) {
  const std::string prefix = "qwen35moe.rope.scaling.";
  const Result<Model> model = exported(
      {{prefix + "type", std::string("yarn")}, {prefix + "factor", 4.0f}, {prefix + "original_context_length", 256u}},
      {});
  ASSERT_TRUE(model) << model.error().text;
  expect_stretched(*model, kUsual);
}

// Ollama's converter writes no original length: it is the context's, as llama.cpp has it.
TEST_F(Qwen35, YarnKeysWithoutTheOriginalLengthStretchTheContext) {
  const Result<Model> model = exported({{"qwen35moe.rope.scaling.type", std::string("yarn")},
                                        {"qwen35moe.rope.scaling.factor", 4.0f},
                                        {"qwen35moe.context_length", 256u}},
                                       {});
  ASSERT_TRUE(model) << model.error().text;
  expect_stretched(*model, kUsual);
  EXPECT_EQ(model->facts().context_length, 1024u);
}

TEST_F(Qwen35, OtherStretchingInGgufIsRefused) {
  const auto said = [&](const std::vector<GgufMetadata::Entry>& keys) {
    std::vector<GgufMetadata::Entry> named;
    for (const auto& [name, value] : keys) named.push_back({"qwen35moe.rope.scaling." + name, value});
    const Result<Model> model = exported(named, {});
    return model ? "" : model.error().text.substr(folder_.size());
  };
  const std::string where = "/out.gguf: qwen35moe.rope.scaling.";
  const GgufValue yarn = std::string("yarn");
  EXPECT_EQ(said({{"type", std::string("longrope")}}), where + "type is longrope: want yarn or none");
  EXPECT_EQ(said({{"factor", 4.0f}}), where + "type is missing with a factor of 4: want yarn or none");
  EXPECT_EQ(said({{"type", std::string("linear")}, {"factor", 2.0f}}),
            where + "type is linear with a factor of 2: want yarn or none");
  EXPECT_EQ(said({{"type", std::string("linear")}, {"factor", 1.0f}}), "");
  EXPECT_EQ(said({{"type", std::string("none")}, {"factor", 4.0f}}), "");
  EXPECT_EQ(said({{"type", 1u}}), where + "type is u32: want a string");
  EXPECT_EQ(said({{"type", yarn}, {"factor", 0.5f}}), where + "factor is 0.5: want 1 to 1000000");
  EXPECT_EQ(said({{"type", yarn}, {"factor", 4.0f}, {"yarn_ext_factor", 0.5f}}),
            where + "yarn_ext_factor is 0.5: want 1");
  EXPECT_EQ(said({{"type", yarn}, {"factor", 4.0f}, {"yarn_log_multiplier", 0.5f}}),
            where + "yarn_log_multiplier is 0.5: want none");
}

TEST_F(Qwen35, OtherStretchingInAFolderIsRefused) {
  EXPECT_EQ(problem(kPlain, R"("rope_type": "linear", "factor": 4.0)"),
            "/config.json: text_config.rope_parameters.rope_type is \"linear\": want default or yarn");
}
TEST_F(Qwen35, YarnWithoutItsFactorIsRefused) {
  EXPECT_EQ(
      problem(kPlain, R"("rope_type": "yarn", "original_max_position_embeddings": 256)"),
      "/config.json: text_config.rope_parameters.factor is missing: want how many times the context is stretched");
}
TEST_F(Qwen35, YarnWithoutTheOriginalLengthIsRefused) {
  EXPECT_EQ(problem(kPlain, R"("rope_type": "yarn", "factor": 4.0)"),
            "/config.json: text_config.rope_parameters.original_max_position_embeddings is missing: want the context "
            "before it was stretched");
}

// As files were before transformers 5.
TEST_F(Qwen35, RopeParametersInTheirOldPlaceAreTheSame) {
  Json config = *parse_json(*read_file(kModel + "/config.json", 1u << 20), "config.json");
  for (auto& [name, text] : config.as_object()) {
    if (name != "text_config") continue;
    Json::Object kept, scaling;
    for (auto& [field, value] : text.as_object()) {
      if (field != "rope_parameters") kept.emplace_back(field, value);
      if (field != "rope_parameters") continue;
      for (auto& [parameter, held] : value.as_object()) {
        const bool outside = parameter == "rope_theta" || parameter == "partial_rotary_factor";
        (outside ? kept : scaling).emplace_back(parameter == "rope_type" ? "type" : parameter, held);
      }
    }
    kept.emplace_back("rope_scaling", std::move(scaling));
    text = std::move(kept);
  }
  put("config.json", write_json(config));
  std::filesystem::create_symlink(std::filesystem::absolute(kModel + "/model.safetensors"), path("model.safetensors"));
  const Result<Model> model = opened(folder_);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(logits_of(*model), logits_of(*opened(kModel)));
  EXPECT_EQ(model->digest(), opened(kModel)->digest());
}

// The cases of a program: a layer's states, and that only wanted rows meet the head.
TEST_F(Qwen35, ALayerHasSlotsOrPages) {
  const Result<Model> model = opened(kModel);
  const Result<Program> program = model->record_text();
  ASSERT_TRUE(program) << program.error().text;
  ASSERT_EQ(program->groups.size(), 2u);
  EXPECT_EQ(program->groups[0].kind, StateKind::slots);
  EXPECT_EQ(program->groups[1].kind, StateKind::paged);
  ASSERT_EQ(program->states.size(), 3u * 2 + 1);
  EXPECT_EQ(program->states[0].name, "layer.0.conv");
  EXPECT_EQ(program->states[1].name, "layer.0.delta");
  EXPECT_EQ(program->states[1].slot_elements(), 4u * 32 * 32);
  EXPECT_EQ(program->states[6].name, "layer.3.kv");
}

}  // namespace
}  // namespace sluice
