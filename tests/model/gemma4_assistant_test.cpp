// The model that drafts for a Gemma 4: its two kinds of files, and what is refused. Its numbers are held by `verify`.
#include <gtest/gtest.h>

#include "tests/model/assistant_gguf.h"
#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

const std::string kData = SLUICE_TEST_DATA;

TEST(Gemma4Assistant, IsAProgramOfTheModelThatItDraftsFor) {
  const Result<Model> plain = open_model(kData + "/gemma4_dense");
  ASSERT_TRUE(plain) << plain.error().text;
  EXPECT_FALSE(plain->has(ProgramKind::draft_head));
  const Result<Model> model = with_draft_head(*plain, kData + "/gemma4_assistant");
  ASSERT_TRUE(model) << model.error().text;
  ASSERT_TRUE(model->has(ProgramKind::draft_head));
  EXPECT_EQ(model->facts().parameters, plain->facts().parameters);
  // States of the model alone are this model's: answers do not depend on drafts.
  EXPECT_EQ(model->digest(), plain->digest());
  const Result<Program> program = model->record(ProgramKind::draft_head);
  ASSERT_TRUE(program) << program.error().text;
  EXPECT_EQ(program->groups.size(), 2u) << "with the window and without one";
}

TEST(Gemma4Assistant, RunsFromLlamaCppsGguf) {
  const Result<Model> plain = open_model(kData + "/gemma4_dense");
  ASSERT_TRUE(plain);
  const Result<Model> folder = with_draft_head(*plain, kData + "/gemma4_assistant");
  ASSERT_TRUE(folder);
  const std::string path = written_gguf(assistant_gguf(*folder), cat(::testing::TempDir(), ::getpid(), "_draft.gguf"));
  const Result<Model> model = with_draft_head(*plain, path);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(open_model(path).error().text,
            path + ": a draft model: want the model that it drafts for, and --draft-model for this one");
  const Program ours = *model->record(ProgramKind::draft_head), judge = *folder->record(ProgramKind::draft_head);
  ASSERT_EQ(ours.weights.size(), judge.weights.size());
  ASSERT_EQ(ours.ropes.size(), judge.ropes.size());
  for (size_t i = 0; i < ours.ropes.size(); ++i) EXPECT_EQ(ours.ropes[i], judge.ropes[i]);
  for (const WeightDecl& weight : ours.weights) {
    const Result<TensorSource> a = model->weights_of(ProgramKind::draft_head).find(weight.name),
                               b = folder->weights_of(ProgramKind::draft_head).find(weight.name);
    ASSERT_TRUE(a && b) << weight.name;
    ASSERT_EQ(a->shape, b->shape);
    ASSERT_EQ(a->format, b->format);
    for (uint32_t row = 0; row < a->shape.rows; ++row)
      ASSERT_EQ(std::memcmp(a->row(0, row), b->row(0, row), row_bytes(a->format, a->shape.columns)), 0) << weight.name;
  }
}

TEST(Gemma4Assistant, OfAnotherModelIsRefused) {
  const std::string assistant = kData + "/gemma4_assistant";
  const Result<Model> plain = open_model(kData + "/gemma4_dense"), other = open_model(kData + "/gemma4_moe");
  ASSERT_TRUE(plain && other);
  EXPECT_EQ(open_model(assistant).error().text,
            assistant + ": a draft model: want the model that it drafts for, and --draft-model for this one");
  EXPECT_EQ(with_draft_head(*plain, kData + "/gemma4_moe").error().text,
            kData + "/gemma4_moe: model_type is \"gemma4\": want an assistant of this model");
  const Result<Model> qwen = open_model(kData + "/qwen3_5_moe");
  ASSERT_TRUE(qwen);
  EXPECT_FALSE(with_draft_head(*qwen, assistant).ok());
  const auto refusal = [&](const std::string& from, const std::string& to) {
    const std::string folder = cat(::testing::TempDir(), ::getpid(), "_assistant");
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(assistant + "/model.safetensors", folder + "/model.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
    std::string config = *read_file(assistant + "/config.json", 1 << 20);
    const size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
    EXPECT_TRUE(write_file(folder + "/config.json", config).ok());
    const Result<Model> model = with_draft_head(*plain, folder);
    const std::string text = model ? "" : model.error().text;
    std::filesystem::remove_all(folder);
    return text.substr(std::min(text.size(), folder.size()));
  };
  const std::string want = ": want an assistant of this model";
  EXPECT_EQ(refusal("\"backbone_hidden_size\": 64", "\"backbone_hidden_size\": 96"),
            ": its width of rows is 96 where the model has 64" + want);
  EXPECT_EQ(refusal("\"sliding_window\": 32", "\"sliding_window\": 64"),
            ": its window is 64 where the model has 32" + want);
  EXPECT_EQ(refusal("\"rope_theta\": 1000000.0", "\"rope_theta\": 500000.0"),
            ": its rope theta is 500000 where the model has 1e+06" + want);
  EXPECT_EQ(refusal("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4"),
            ": its number of heads of keys is 4 where the model has 2" + want);
  EXPECT_EQ(refusal("\"vocab_size\": 768", "\"vocab_size\": 512"),
            ": its vocabulary is 512 where the model has 768" + want);
}

}  // namespace
}  // namespace sluice
