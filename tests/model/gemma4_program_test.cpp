// Shapes no golden covers: E4B's, 12B's and 26B's, small.
#include <gtest/gtest.h>

#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"

namespace sluice {
namespace {

using tests::like_12b;
using tests::like_26b;
using tests::like_e4b;
using tests::TinyShape;

class Gemma4Program : public tests::TinyModel {
 protected:
  Model model_of(const TinyShape& shape) {
    put_model(shape);
    Result<Model> model = open_model(folder_);
    EXPECT_TRUE(model) << model.error().text;
    EXPECT_TRUE(model->unread_tensors().empty());
    return *std::move(model);
  }
  static Program program_of(const Model& model, bool all_named = false) {
    Result<Program> program = model.record_text({.all_named = all_named});
    EXPECT_TRUE(program) << program.error().text;
    return *std::move(program);
  }
  static ValueType type_of_value(const Program& program, const std::string& name) {
    return program.values[find_value(program, name)].type;
  }
  static size_t count_blocks(const Program& program, BlockKind kind) {
    return static_cast<size_t>(std::ranges::count(program.blocks, kind, &Block::kind));
  }
};

const std::vector<int32_t> kTokens = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43, 38, 32, 79, 50, 28, 84, 19};

TEST_F(Gemma4Program, InputsAndOutputs) {
  const Program program = program_of(model_of(like_12b()));
  ASSERT_EQ(program.inputs.size(), 2u);
  EXPECT_EQ(program.inputs[0].name, "tokens");
  EXPECT_EQ(program.inputs[1].name, "wanted");
  const ValueType logits = type_of_value(program, "logits");
  EXPECT_EQ(logits.extent.symbol, Symbol::wanted);
  EXPECT_EQ(logits.columns(), 96u);
  EXPECT_EQ(type_of_value(program, "sample").width, kSampleWords);
}

// transformers looks them up at the padding token until a tower's rows are put in, here ids 19, 20 and 23.
TEST_F(Gemma4Program, TokensOfPicturesAndSoundsAreReadAsPadding) {
  for (const char* path : {"/gemma4_dense", "/peer/gemma4_moe-bf16.gguf"}) {
    Result<Model> model = open_model(std::string(SLUICE_TEST_DATA) + path);
    ASSERT_TRUE(model) << model.error().text;
    const Program program = program_of(*model);
    EXPECT_EQ(program.placeholders.tokens, (std::vector<int32_t>{19, 20, 23})) << path;
    EXPECT_EQ(program.placeholders.read_as, 0) << path;
  }
}

TEST_F(Gemma4Program, OnlyWantedRowsGoOnBehindTheLastLayerThatWritesState) {
  const Program program = program_of(model_of(like_e4b()));
  EXPECT_EQ(type_of_value(program, "hidden.5").extent.symbol,
            Symbol::rows);  // named before narrowing: output of layer 4
  EXPECT_EQ(type_of_value(program, "layer.5.q").extent.symbol, Symbol::wanted);
  EXPECT_EQ(type_of_value(program, "hidden.9").extent.symbol, Symbol::wanted);
  const Program whole = program_of(model_of(like_e4b()), true);
  EXPECT_EQ(type_of_value(whole, "hidden.9").extent.symbol, Symbol::rows);
  EXPECT_EQ(type_of_value(whole, "final_norm").extent.symbol, Symbol::rows);
  EXPECT_EQ(type_of_value(whole, "logits").extent.symbol, Symbol::wanted);
}

TEST_F(Gemma4Program, NarrowingChangesNoLogit) {
  const Model model = model_of(like_e4b());
  TextBench narrowed(model, program_of(model), 32), whole(model, program_of(model, true), 32);
  const std::vector<int32_t> wanted = {0, 7, 19};
  const auto a = narrowed.play(kTokens, wanted, {find_value(narrowed.program(), "logits")});
  const auto b = whole.play(kTokens, wanted, {find_value(whole.program(), "logits")});
  EXPECT_EQ(a, b);
  EXPECT_NE(std::vector<float>(a[0].begin(), a[0].begin() + 96), std::vector<float>(a[0].end() - 96, a[0].end()));
}

TEST_F(Gemma4Program, SharedLayersReadTheLastOwnerOfTheirKind) {
  const Program program = program_of(model_of(like_e4b()));
  EXPECT_EQ(program.states.size(), 5u);  // of nine layers four own none
  std::vector<uint32_t> read;
  for (const Op& op : program.ops)
    if (const auto* attention = std::get_if<Attention>(&op)) read.push_back(attention->state.state);
  EXPECT_EQ(read, (std::vector<uint32_t>{0, 1, 2, 3, 4, 2, 4, 4, 2}));  // ssfss fssf
  EXPECT_EQ(find_value(program, "layer.8.k"), find_value(program, "layer.2.k"));
}

TEST_F(Gemma4Program, FullLayersOf12BHaveOneHeadAndNoValueMatrix) {
  const Program program = program_of(model_of(like_12b()));
  const StateDecl& full = program.states[5];
  EXPECT_EQ(full.heads, 1u);
  EXPECT_EQ(full.key_width, 32u);
  EXPECT_EQ(program.groups[full.group].window, 0u);
  EXPECT_EQ(program.states[0].heads, 2u);
  EXPECT_EQ(program.groups[program.states[0].group].window, 8u);
  EXPECT_TRUE(std::ranges::none_of(program.weights, [](const auto& w) { return w.name == "layer.5.v_proj"; }));
  EXPECT_EQ(type_of_value(program, "layer.5.v").heads, 1u);
}

TEST_F(Gemma4Program, BlocksCoverWhatDevicesFuse) {
  const Program e4b = program_of(model_of(like_e4b()));
  EXPECT_EQ(count_blocks(e4b, BlockKind::qkv), 5u);
  EXPECT_EQ(count_blocks(e4b, BlockKind::gated_mlp), 9u);
  const Program experts = program_of(model_of(like_26b()));
  EXPECT_EQ(count_blocks(experts, BlockKind::moe), 6u);
}

TEST_F(Gemma4Program, DoubleWideLayersAreTheSharedOnes) {
  TinyShape shape = like_e4b();
  shape.double_wide = true;
  const Program program = program_of(model_of(shape));
  const auto rows_of = [&](const std::string& name) {
    return std::ranges::find(program.weights, name, &WeightDecl::name)->shape.rows;
  };
  EXPECT_EQ(rows_of("layer.4.gate_proj"), 48u);
  EXPECT_EQ(rows_of("layer.5.gate_proj"), 96u);
}

TEST_F(Gemma4Program, AHeadOfItsOwnIsUsed) {
  TinyShape shape = like_12b();
  shape.tied = false;
  const Model model = model_of(shape);
  const Program program = program_of(model);
  EXPECT_EQ(program.weights.back().name, "lm_head");
  EXPECT_EQ(program_of(model_of(like_12b())).weights.back().name, "final_norm");
}

TEST_F(Gemma4Program, RopeTurnsAQuarterOfTheFullHeads) {
  const Program program = program_of(model_of(like_12b()));
  ASSERT_EQ(program.ropes.size(), 2u);
  const std::vector<float>& full = program.ropes[0].inverse_frequencies;
  ASSERT_EQ(full.size(), 16u);
  EXPECT_EQ(full[0], 1.0f);
  EXPECT_GT(full[3], 0.0f);
  EXPECT_EQ(full[4], 0.0f);
  EXPECT_GT(program.ropes[1].inverse_frequencies[7], 0.0f);
}

TEST_F(Gemma4Program, DigestsTellModelsApart) {
  const std::string digest = model_of(like_12b()).digest();
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(model_of(like_12b()).digest(), digest);
  TinyShape window = like_12b();
  window.window = 9;
  EXPECT_NE(model_of(window).digest(), digest);
  TinyShape narrow = like_12b();
  narrow.feed_forward = 47;
  EXPECT_NE(model_of(narrow).digest(), digest);
}

}  // namespace
}  // namespace sluice
