// Heads for multi-token prediction, held to tests/data/make_draft_heads.py.
#include <gtest/gtest.h>

#include <cmath>

#include "device/cpu/cpu.h"
#include "model/export.h"
#include "tests/model/draft_apart.h"
#include "tests/model/draft_checkpoint.h"
#include "tests/model/text_bench.h"
#include "tests/model/written_gguf.h"
#include "tests/small_models.h"

namespace sluice {
namespace {

class DraftHeadModel : public ::testing::TestWithParam<const char*> {};

void expect_golden(const Model& model, std::unique_ptr<Device> device) {
  const std::string folder = model.facts().family == "deepseek2" ? "deepseek_v3" : "qwen3_5_moe";
  const std::string text = *read_file(cat(SLUICE_TEST_DATA, "/", folder, "/draft_head.json"), 1 << 20);
  const Json golden = *parse_json(text, "draft_head.json");
  std::vector<int32_t> tokens, wanted;
  for (const Json& token : golden.find("tokens")->as_array())
    tokens.push_back(static_cast<int32_t>(token.as_integer()));
  for (const Json& row : golden.find("wanted")->as_array()) wanted.push_back(static_cast<int32_t>(row.as_integer()));
  Result<Program> program = model.record(ProgramKind::draft_head);
  ASSERT_TRUE(program) << program.error().text;
  TextBench bench(model, *std::move(program), static_cast<uint32_t>(tokens.size()), std::move(device),
                  &model.weights_of(ProgramKind::draft_head));
  const std::vector<float> logits = bench.play(tokens, wanted, {find_value(bench.program(), "logits")},
                                               tests::draft_numbers("hidden", tokens.size() * 64))[0];
  size_t at = 0;
  double largest = 0;
  for (const Json& row : golden.find("logits")->as_array())
    for (const Json& logit : row.as_array())
      largest = std::max(largest, std::abs(static_cast<double>(logits.at(at++)) - logit.as_number()));
  EXPECT_EQ(at, logits.size());
  EXPECT_LT(largest, 1e-3);
}

TEST_P(DraftHeadModel, LogitsAreThoseOfTheIndependentScript) {
  const tests::DraftCheckpoint files(GetParam(), cat(GetParam(), "_draft_logits"), tests::nothing_replaced);
  const Result<Model> model = open_model(files.path());
  ASSERT_TRUE(model) << model.error().text;
  ASSERT_TRUE(model->has(ProgramKind::draft_head));
  expect_golden(*model, make_reference_device());
  ThreadPool pool(1);
  expect_golden(*model, make_cpu_device({.pool = &pool}));
}

TEST_P(DraftHeadModel, IsNotAmongTheTextModelsWeightsNorUnread) {
  const tests::DraftCheckpoint files(GetParam(), cat(GetParam(), "_draft_facts"), tests::nothing_replaced);
  const Result<Model> model = open_model(files.path()), plain = open_model(cat(SLUICE_TEST_DATA, "/", GetParam()));
  ASSERT_TRUE(model && plain);
  EXPECT_FALSE(plain->has(ProgramKind::draft_head));
  EXPECT_EQ(model->facts().parameters, plain->facts().parameters);
  EXPECT_EQ(model->unread_tensors(), plain->unread_tensors());
}

TEST_P(DraftHeadModel, IsKeptInGguf) {
  const tests::DraftCheckpoint files(GetParam(), cat(GetParam(), "_draft_gguf"), tests::nothing_replaced);
  const Result<Model> model = open_model(files.path());
  ASSERT_TRUE(model) << model.error().text;
  const Result<GgufExport> out = export_gguf(*model, *find_mix("f32"));
  ASSERT_TRUE(out) << out.error().text;
  const Result<Model> back = open_model(written_gguf(*out, join_path(files.path(), "out.gguf")));
  ASSERT_TRUE(back) << back.error().text;
  EXPECT_EQ(back->facts().layers, 4u);
  EXPECT_EQ(back->unread_tensors(), std::vector<std::string>{});
  ASSERT_TRUE(back->has(ProgramKind::draft_head));
  EXPECT_NE(back->checkpoint().find("blk.4.nextn.eh_proj.weight"), nullptr);
  expect_golden(*back, make_reference_device());
  const Result<GgufExport> again = export_gguf(*back, *find_mix("f32"));
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(again->tensors.size(), out->tensors.size());
}

// As Ollama's converter wrote it: tensors under Hugging Face's names or between, an expert each, norms that hold w, and
// a head that no key counts.
GgufExport as_of_ollama(const Model& model) {
  GgufExport out = *export_gguf(model, *find_mix("f32"));
  const std::string block = "blk.4.", family = "qwen35moe.";
  std::erase_if(out.keys, [&](const auto& key) { return key.name == family + "nextn_predict_layers"; });
  for (auto& [name, value] : out.keys) {
    if (name == family + "block_count") value = 4u;
    if (name == family + "attention.recurrent_layers") value = GgufArray<bool>{true, true, true, false};
    if (name == family + "attention.head_count_kv") value = GgufArray<int32_t>{0, 0, 0, 1};
  }
  const auto of_folder = [&](ExportTensor& tensor, const char* name) {
    const StoredTensor& stored = *model.checkpoint().find(name);
    EXPECT_EQ(stored.format, Format::f32);
    tensor.name = name;
    tensor.source.bytes = stored.bytes.data();
  };
  std::vector<ExportTensor> tensors;
  for (ExportTensor tensor : out.tensors) {
    const auto is = [&](const char* name) { return tensor.name == block + name; };
    const bool joint = is("ffn_gate_up_exps.weight"), down = is("ffn_down_exps.weight");
    if (is("nextn.eh_proj.weight")) of_folder(tensor, "mtp.fc.weight");
    if (is("nextn.enorm.weight")) of_folder(tensor, "mtp.pre_fc_norm_embedding.weight");
    if (is("nextn.hnorm.weight")) of_folder(tensor, "mtp.pre_fc_norm_hidden.weight");
    if (is("nextn.shared_head_norm.weight")) of_folder(tensor, "mtp.norm.weight");
    for (const auto& [name, stored] : {std::pair("attn_norm", "input_layernorm"),
                                       {"post_attention_norm", "post_attention_layernorm"},
                                       {"attn_q_norm", "self_attn.q_norm"},
                                       {"attn_k_norm", "self_attn.k_norm"}}) {
      if (!is(cat(name, ".weight").c_str())) continue;
      of_folder(tensor, cat("mtp.layers.0.", stored, ".weight").c_str());
      tensor.name = cat("mtp.layers.0.", name, ".weight");
    }
    if (starts_with(tensor.name, block)) tensor.name.replace(0, block.size(), "mtp.layers.0.");
    if (!joint && !down) {
      tensors.push_back(tensor);
      continue;
    }
    const uint32_t experts = tensor.source.shape.experts, rows = tensor.source.shape.rows / (joint ? 2 : 1);
    for (uint32_t expert = 0; expert < experts; ++expert)
      for (const char* part : {"gate", "up", "down"}) {
        if ((std::string_view(part) == "down") != down) continue;
        ExportTensor one = tensor;
        one.name = cat("mtp.layers.0.mlp.experts.", expert, ".", part, "_proj.weight");
        one.shape = {rows, tensor.shape.back()};
        one.source.bytes = tensor.source.row(expert, part[0] == 'u' ? rows : 0);
        one.source.shape.experts = 1;
        one.source.shape.rows = rows;
        tensors.push_back(one);
      }
  }
  out.tensors = std::move(tensors);
  return out;
}

TEST(DraftHeadFile, NormsOfOllamasMtpNeedOneMore) {
  const tests::DraftCheckpoint files("qwen3_5_moe", "draft_ollama", tests::nothing_replaced);
  const Result<Model> folder = open_model(files.path());
  ASSERT_TRUE(folder) << folder.error().text;
  const Result<Model> model = open_model(written_gguf(as_of_ollama(*folder), join_path(files.path(), "ollama.gguf")));
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->facts().layers, 4u);
  EXPECT_EQ(model->unread_tensors(), std::vector<std::string>{});
  ASSERT_TRUE(model->has(ProgramKind::draft_head)) << model->record(ProgramKind::draft_head).error().text;
  EXPECT_EQ(model->checkpoint().key("qwen35moe.nextn_predict_layers"), nullptr);
  EXPECT_EQ(model->checkpoint().find("blk.4.attn_norm.weight"), nullptr);
  expect_golden(*model, make_reference_device());

  // Converted it is a head like others.
  const GgufExport out = *export_gguf(*model, *find_mix("f32"));
  const Result<Model> again = open_model(written_gguf(out, join_path(files.path(), "again.gguf")));
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(again->facts().layers, 4u);
  EXPECT_NE(again->checkpoint().find("blk.4.nextn.eh_proj.weight"), nullptr);
  EXPECT_EQ(again->checkpoint().find("mtp.fc.weight"), nullptr);
  ASSERT_TRUE(again->has(ProgramKind::draft_head)) << again->record(ProgramKind::draft_head).error().text;
  expect_golden(*again, make_reference_device());
}

TEST_P(DraftHeadModel, MayLieInAFileOfItsOwn) {
  const tests::DraftCheckpoint files(GetParam(), cat(GetParam(), "_draft_apart"), tests::nothing_replaced);
  const Result<Model> folder = open_model(files.path());
  ASSERT_TRUE(folder) << folder.error().text;
  const GgufExport whole = *export_gguf(*folder, *find_mix("f32"));
  const std::string architecture = architecture_of(whole);
  const TwoFiles two = head_apart(whole);
  const std::string path = written_gguf(two.model, join_path(files.path(), "m-f32.gguf"));
  const std::string head = written_gguf(two.head, join_path(files.path(), "mtp-m-f32.gguf"));
  const Result<Model> plain = open_model(path);
  ASSERT_TRUE(plain) << plain.error().text;
  EXPECT_FALSE(plain->has(ProgramKind::draft_head));

  const Result<Model> model = with_draft_head(*plain, head);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->facts().layers, 4u);
  EXPECT_EQ(model->unread_tensors(), std::vector<std::string>{});
  ASSERT_TRUE(model->has(ProgramKind::draft_head)) << model->record(ProgramKind::draft_head).error().text;
  expect_golden(*model, make_reference_device());
  // States of the model alone are this model's: answers do not depend on drafts.
  EXPECT_EQ(model->digest(), plain->digest());

  // The head of another model is refused.
  GgufExport other = two.head;
  for (auto& [name, value] : other.keys)
    if (name == architecture + ".embedding_length") value = 128u;
  const std::string wrong = written_gguf(other, join_path(files.path(), "mtp-other.gguf"));
  EXPECT_EQ(with_draft_head(*plain, wrong).error().text,
            cat(wrong, ": key ", architecture,
                ".embedding_length differs from the model's: want a head for multi-token "
                "prediction of ",
                path));
  EXPECT_EQ(with_draft_head(*plain, path).error().text,
            cat(path, ": has no key ", architecture,
                ".nextn_predict_layers: want a head for multi-token prediction of ", path));
  // A model with a head of its own keeps it.
  const Result<Model> own = open_model(written_gguf(whole, join_path(files.path(), "whole.gguf")));
  EXPECT_EQ(&with_draft_head(*own, head)->checkpoint(), &own->checkpoint());
}

// The text model is there without it; asking for it says what is missing.
TEST(DraftHeadFile, AnIncompleteHeadIsNoHead) {
  tests::DraftCheckpoint files("qwen3_5_moe", "draft_part", tests::nothing_replaced);
  std::string whole = *read_file(join_path(files.path(), "model.safetensors"), 1 << 24);
  const std::string name = "mtp.layers.0.self_attn.k_proj.weight";
  whole.replace(whole.find(name), name.size(), "mtp.layers.9.self_attn.k_proj.weight");
  ASSERT_TRUE(write_file(join_path(files.path(), "model.safetensors"), whole));
  const Result<Model> model = open_model(files.path());
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_FALSE(model->has(ProgramKind::draft_head));
  EXPECT_EQ(model->record(ProgramKind::draft_head).error().text.substr(files.path().size()),
            ": a tensor is missing: model.language_model.mtp.layers.0.self_attn.k_proj.weight");
  EXPECT_FALSE(export_gguf(*model, *find_mix("f32")).ok());
}

INSTANTIATE_TEST_SUITE_P(Families, DraftHeadModel, ::testing::ValuesIn(small_models_with_draft_heads()),
                         [](const auto& variant) { return std::string(variant.param); });

}  // namespace
}  // namespace sluice
