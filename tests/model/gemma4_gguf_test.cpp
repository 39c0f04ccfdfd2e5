// Gemma 4 in GGUF files whose keys or tensors are not those of our own exports.
#include <gtest/gtest.h>

#include "model/rope.h"
#include "tests/model/tiny_model.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

using testing::TinyShape;

class Gemma4Gguf : public testing::TinyModel {
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
