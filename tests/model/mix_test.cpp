// Which formats a mix chooses: against what llama.cpp's quantiser chose for real models and for its own files.
#include "model/mix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "base/text.h"
#include "checkpoint/file_type.h"

namespace sluice {
namespace {

// A model of mixes.txt.
struct Expected {
  std::string model;
  MixFacts facts;
  std::vector<MixTensor> tensors;
  struct OfMix {
    std::string name;
    std::map<std::string, Format> formats;  // those that are not the mix's own
    Format own{};
  };
  std::vector<OfMix> mixes;
};

// "blk.N.x" in layers "0-2,5": blk.0.x, blk.1.x, blk.2.x, blk.5.x. No layers: "-".
std::vector<std::string> names_of(const std::string& pattern, const std::string& layers) {
  if (layers == "-") return {pattern};
  std::vector<std::string> names;
  for (const std::string& run : split(layers, ',')) {
    const std::vector<std::string> ends = split(run, '-');
    for (int64_t layer = *parse_integer(ends.front()); layer <= *parse_integer(ends.back()); ++layer)
      names.push_back(cat("blk.", layer, pattern.substr(std::string_view("blk.N").size())));
  }
  return names;
}

std::vector<Expected> expected_mixes() {
  std::vector<Expected> all;
  std::ifstream file(SLUICE_TEST_DATA "/peer/mixes.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first, second, third, key;
    words >> first >> second >> third;
    if (first == "model") {
      Expected& one = all.emplace_back();
      one.model = second;
      words >> one.facts.layers >> key >> one.facts.heads >> key >> one.facts.kv_heads >> key >> one.facts.experts;
    } else if (first == "tensor") {
      int64_t columns = 0, matrices = 0;
      words >> columns >> matrices;
      for (const std::string& name : names_of(second, third))
        all.back().tensors.push_back({name, {matrices, 2, columns}, Format::bf16});
    } else if (first == "mix") {
      all.back().mixes.push_back({second, {}, *format_by_name(third)});
    } else if (first != "#") {
      for (const std::string& name : names_of(second, third))
        all.back().mixes.back().formats[name] = *format_by_name(first);
    }
  }
  return all;
}

TEST(Mix, ChoosesWhatLlamaCppsQuantiserChooses) {
  const std::vector<Expected> all = expected_mixes();
  ASSERT_EQ(all.size(), 7u);
  for (const Expected& model : all) {
    ASSERT_EQ(model.mixes.size(), 18u) << model.model;
    for (const Expected::OfMix& expected : model.mixes) {
      const Mix* mix = find_mix(expected.name);
      ASSERT_NE(mix, nullptr) << expected.name;
      const std::vector<Format> found = mix_formats(*mix, model.tensors, model.facts);
      size_t others = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        const auto other = expected.formats.find(model.tensors[i].name);
        others += other != expected.formats.end();
        EXPECT_STREQ(format_name(found[i]), format_name(other == expected.formats.end() ? expected.own : other->second))
            << model.model << ' ' << expected.name << ' ' << model.tensors[i].name;
      }
      EXPECT_EQ(others, expected.formats.size()) << model.model << ' ' << expected.name;
    }
  }
}

TEST(Mix, TheOrderInTheFileDoesNotMatter) {
  Expected model = expected_mixes().back();
  const Mix& mix = *find_mix("q4_k_m");
  std::vector<Format> found = mix_formats(mix, model.tensors, model.facts);
  std::ranges::reverse(model.tensors);
  std::ranges::reverse(found);
  EXPECT_EQ(mix_formats(mix, model.tensors, model.facts), found);
}

TEST(Mix, EveryMixHasAFileTypeAndEncoders) {
  for (const Mix& mix : all_mixes()) {
    EXPECT_TRUE(file_type_by_name(mix.name)) << mix.name;
    for (const Format format : {mix.own, mix.values.then, mix.values.otherwise, mix.down.then, mix.down.otherwise,
                                mix.attention_output.then, mix.stacked, format_of_rows(mix.own, 32)})
      EXPECT_NE(format_info(format).encode, nullptr) << mix.name << ' ' << format_name(format);
  }
  EXPECT_EQ(find_mix("q4_k"), nullptr);
}

Format chosen(const char* mix, const MixTensor& tensor, const MixFacts& facts = {.layers = 8}) {
  return mix_formats(*find_mix(mix), {tensor}, facts)[0];
}

TEST(Mix, WhatIsNeverQuantised) {
  for (const char* mix : {"q4_k_m", "q8_0", "f16"}) {
    for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.0.ssm_conv1d.weight", "blk.0.x_norm.weight", "blk.0.a"})
      EXPECT_EQ(chosen(mix, {name, {64, 256}, Format::bf16}), Format::f32) << mix << ' ' << name;
    EXPECT_EQ(chosen(mix, {"blk.0.attn_q.weight", {256}, Format::bf16}), Format::f32) << mix;
    EXPECT_EQ(chosen(mix, {"blk.0.attn_q.weight", {1, 256}, Format::bf16}), Format::f32) << mix;
  }
  const auto kept = [](const char* mix, Format stored) {
    return chosen(mix, {"per_layer_model_proj.weight", {256, 256}, stored});
  };
  EXPECT_EQ(kept("q4_k_m", Format::bf16), Format::bf16);
  EXPECT_EQ(kept("q4_k_m", Format::f32), Format::f32);
  EXPECT_EQ(kept("q4_k_m", Format::f8_e4m3), Format::bf16);  // which GGUF has not
  EXPECT_EQ(kept("q8_0", Format::bf16), Format::q8_0);       // as llama.cpp's converter does
}

TEST(Mix, RowsThatAreNoWholeBlocksFallBack) {
  const std::pair<Format, Format> of_32[] = {{Format::q2_k, Format::q4_0}, {Format::q3_k, Format::q4_0},
                                             {Format::q4_k, Format::q5_0}, {Format::q5_k, Format::q5_1},
                                             {Format::q6_k, Format::q8_0}, {Format::iq4_xs, Format::iq4_nl},
                                             {Format::q4_1, Format::q4_1}, {Format::bf16, Format::bf16}};
  for (const auto& [format, smaller] : of_32) {
    EXPECT_EQ(format_of_rows(format, 512), format);
    EXPECT_EQ(format_of_rows(format, 96), smaller);
    EXPECT_EQ(format_of_rows(format, 100), format == Format::bf16 ? Format::bf16 : Format::f16);
  }
}

TEST(Mix, EightExpertsGetFinerAttention) {
  const MixFacts facts{.layers = 8, .experts = 8};
  const auto of = [&](const char* mix, const char* name) {
    return chosen(mix, {name, {256, 256}, Format::bf16}, facts);
  };
  for (const char* mix : {"q4_0", "q3_k_l", "q4_k_m", "q6_k"}) {
    EXPECT_EQ(of(mix, "blk.3.attn_v.weight"), Format::q8_0) << mix;
    EXPECT_EQ(of(mix, "blk.3.attn_k.weight"), Format::q8_0) << mix;
    EXPECT_EQ(of(mix, "blk.3.attn_q.weight"), find_mix(mix)->own) << mix;
  }
  EXPECT_EQ(of("q4_k_m", "blk.3.attn_output.weight"), Format::q5_k);
  EXPECT_EQ(of("q3_k_l", "blk.3.attn_output.weight"), Format::q3_k);
}

TEST(FormatRules, TheFirstRuleThatFitsCounts) {
  const std::vector<MixTensor> tensors = {{"blk.0.attn_q.weight", {64, 256}, Format::bf16},
                                          {"blk.0.attn_q_norm.weight", {256}, Format::bf16},
                                          {"blk.1.attn_q.weight", {64, 256}, Format::bf16},
                                          {"blk.1.ffn_down.weight", {64, 96}, Format::bf16}};
  std::vector<Format> formats(4, Format::f32);
  ASSERT_TRUE(apply_rules({{"blk.1.attn*", Format::q8_0}, {"*attn_q*", Format::q6_k}}, tensors, formats));
  EXPECT_EQ(formats, (std::vector<Format>{Format::q6_k, Format::f32, Format::q8_0, Format::f32}));
  ASSERT_TRUE(apply_rules({{"*", Format::q4_k}}, tensors, formats));
  EXPECT_EQ(formats, (std::vector<Format>{Format::q4_k, Format::f32, Format::q4_k, Format::q5_0}));
  EXPECT_EQ(apply_rules({{"*", Format::q4_k}, {"*norm*", Format::f16}}, tensors, formats).error().text,
            "*norm*: no matrix of the file has such a name: want one in GGUF's words, such as blk.0.attn_q.weight");
}

TEST(FormatRules, PatternsFitWholeNames) {
  const std::vector<MixTensor> tensors = {{"blk.0.attn_q.weight", {64, 256}, Format::bf16}};
  const auto fits = [&](const std::string& pattern) {
    std::vector<Format> formats(1);
    return apply_rules({{pattern, Format::q8_0}}, tensors, formats).ok();
  };
  for (const char* pattern : {"blk.0.attn_q.weight", "*", "blk.*", "*.weight", "*q*", "b*.*.*t", "**blk**", "blk.?.a*"})
    EXPECT_TRUE(fits(pattern)) << pattern;
  for (const char* pattern : {"", "?", "attn_q", "*.bias", "blk.*.weight?", "*qq*", "blk.??.attn_q.weight", "?*?*?x"})
    EXPECT_FALSE(fits(pattern)) << pattern;
  std::string stars;
  for (int i = 0; i < 500; ++i) stars += "*b";
  EXPECT_FALSE(fits(stars));
}

}  // namespace
}  // namespace sluice
