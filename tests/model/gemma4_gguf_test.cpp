// Gemma 4 in GGUF files whose keys or tensors are not those of our own exports.
#include <gtest/gtest.h>

#include "model/rope.h"
#include "tests/model/tiny_model.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

using tests::TinyShape;

class Gemma4Gguf : public tests::TinyModel {
 protected:
  // A small model with keys of "gemma4." changed or added.
  GgufExport exported(const TinyShape& shape, const std::vector<GgufMetadata::Entry>& changed = {}) const {
    put_model(shape);
    GgufExport out = *export_gguf(*open_model(folder_), *find_mix("f32"));
    for (const auto& [name, value] : changed) {
      const auto known = std::ranges::find(out.keys, "gemma4." + name, &GgufMetadata::Entry::name);
      if (known == out.keys.end())
        out.keys.push_back({"gemma4." + name, value});
      else
        known->value = value;
    }
    return out;
  }
  Result<Model> open(const GgufExport& out) const { return open_model(written_gguf(out, path("out.gguf"))); }
  std::string said(const GgufExport& out) const {
    const Result<Model> model = open(out);
    return model ? "" : model.error().text.substr(folder_.size());
  }
};

// --- what llama.cpp does without

TEST_F(Gemma4Gguf, LayersWithoutAScaleAreNotScaled) {
  GgufExport out = exported({});
  static constexpr float kOne = 1.0f;
  for (ExportTensor& tensor : out.tensors)
    if (ends_with(tensor.name, "layer_output_scale.weight"))
      tensor.source.bytes = reinterpret_cast<const std::byte*>(&kOne);
  const std::vector<float> want = logits_of(*open(out));
  EXPECT_NE(want, logits_of(*open_model(folder_))) << "the scales count";
  std::erase_if(out.tensors, [](const auto& tensor) { return ends_with(tensor.name, "layer_output_scale.weight"); });
  const Result<Model> model = open(out);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(logits_of(*model), want);
  GgufExport part = exported({});
  std::erase_if(part.tensors, [](const auto& tensor) { return tensor.name == "blk.1.layer_output_scale.weight"; });
  EXPECT_EQ(said(part), "/out.gguf: a tensor is missing: blk.1.layer_output_scale.weight") << "all or none";
}

TEST_F(Gemma4Gguf, TheWidthOfNoPerLayerEmbeddingsMayBeMissing) {
  GgufExport out = exported({});
  const std::string key = "gemma4.embedding_length_per_layer_input";
  EXPECT_EQ(std::erase_if(out.keys, [&](const auto& entry) { return entry.name == key; }), 1u) << "it is written as 0";
  EXPECT_EQ(said(out), "");
  GgufExport with = exported(tests::like_e4b());
  std::erase_if(with.keys, [&](const auto& entry) { return entry.name == key; });
  EXPECT_EQ(said(with), "/out.gguf: " + key + " is missing or 0: want the width of per_layer_token_embd.weight");
}

TEST_F(Gemma4Gguf, ThePatternOfSlidingLayersMayBeANumber) {
  const std::string key = "attention.sliding_window_pattern";
  const TinyShape shape{.kinds = "ssfssf"};
  const Result<Model> model = open(exported(shape, {{key, 3u}}));
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(logits_of(*model), logits_of(*open_model(folder_)));
  EXPECT_EQ(said(exported(shape, {{key, 2u}})), "/out.gguf: blk.1.attn_q.weight is f32 [64, 32]: want [128, 32]");
  EXPECT_EQ(said(exported(shape, {{key, 0u}})), "/out.gguf: gemma4." + key + " is 0: want which layers are sliding");
  EXPECT_EQ(said(exported(shape, {{key, 513u}})), "/out.gguf: gemma4." + key + " is 513: want 0 to 512");
  EXPECT_EQ(said(exported(shape, {{key, GgufArray<int32_t>{1, 1, 0, 1, 2, 0}}})),
            "/out.gguf: gemma4." + key + "[4] is 2: want true or false");
}

// --- positions that are stretched

// Full layers turn 4 of 16 pairs, base 1e6, eight times 64 positions; by the formula of rope_test.cpp.
constexpr float kStretched[] = {1.0f, 0.2987016899285791f, 0.07409497541828847f, 0.009373677616655697f};

TEST_F(Gemma4Gguf, YarnKeysWereIgnored) {
  const Result<Model> model = open(exported({}, {{"rope.scaling.type", std::string("yarn")},
                                                 {"rope.scaling.factor", 8.0f},
                                                 {"rope.scaling.original_context_length", 64u},
                                                 {"context_length", 64u}}));
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->facts().context_length, 512u);
  const Program program = *model->record_text();
  ASSERT_EQ(program.ropes.size(), 2u);
  const RopeDecl &full = program.ropes[0], &sliding = program.ropes[1];
  ASSERT_EQ(full.inverse_frequencies.size(), 16u);
  for (size_t i = 0; i < 16; ++i) {
    const float want = i < std::size(kStretched) ? kStretched[i] : 0.0f;
    EXPECT_NEAR(full.inverse_frequencies[i], want, 1e-6f * want) << i;
  }
  EXPECT_FLOAT_EQ(full.magnitude, 1.2079441541679836f);  // 1 + 0.1 ln 8
  EXPECT_EQ(sliding.inverse_frequencies, inverse_frequencies(1e4f, 16)) << "a window reaches no further";
  EXPECT_EQ(sliding.magnitude, 1.0f);
  EXPECT_NE(model->digest(), open_model(folder_)->digest());
}

TEST_F(Gemma4Gguf, OtherStretchingIsRefused) {
  const GgufValue yarn = std::string("yarn");
  EXPECT_EQ(said(exported({}, {{"rope.scaling.type", std::string("longrope")}})),
            "/out.gguf: gemma4.rope.scaling.type is longrope: want yarn or none");
  EXPECT_EQ(said(exported({}, {{"rope.scaling.factor", 8.0f}})),
            "/out.gguf: gemma4.rope.scaling.type is missing with a factor of 8: want yarn or none");
  EXPECT_EQ(said(exported({}, {{"rope.scaling.type", yarn}, {"rope.scaling.attn_factor", 2.0f}})),
            "/out.gguf: gemma4.rope.scaling.attn_factor is not 1: want none, since it does not say of which layers it "
            "is");
}

}  // namespace
}  // namespace sluice
