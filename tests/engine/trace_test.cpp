#include "engine/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/real_engine.h"

namespace sluice {
namespace {

const std::vector<int32_t> kTokens{2, 371, 766, 384, 373, 552, 572, 441, 536, 449, 460, 450, 668, 480, 604, 458, 437};

const TracedValue* find(const Trace& values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.name == name; });
  return found == values.end() ? nullptr : &*found;
}

struct Traced {
  std::string folder;  // of the golden
  std::string model;   // as real_model takes it
  std::vector<int32_t> tokens;
  std::vector<std::string> names;
};

// The golden's own value: relative norm as design and verify measure it, 1e-4.
void expect_goldens(const Traced& traced) {
  const Result<Checkpoint> golden = open_safetensors(cat(SLUICE_TEST_DATA, "/", traced.folder, "/golden.safetensors"));
  ASSERT_TRUE(golden);
  for (const char* device_name : {"reference", "cpu"}) {
    RealDevice machine(device_name, 1);
    Budget budget;
    const Result<Trace> values =
        trace(real_model(traced.model), *machine.device, budget, Arithmetic::exact, {.tokens = traced.tokens});
    ASSERT_TRUE(values) << values.error().text;
    EXPECT_EQ(values->back().name, "logits");
    EXPECT_EQ(values->back().rows, traced.tokens.size());
    EXPECT_EQ(values->back().columns, 768u);
    for (const std::string& name : traced.names) {
      const TracedValue* value = find(*values, name);
      const StoredTensor* want = golden->find("short17/" + name);
      ASSERT_TRUE(value != nullptr && want != nullptr) << name;
      ASSERT_EQ(value->floats.size() * 4, want->bytes.size()) << name;
      std::vector<float> expected(value->floats.size());
      std::memcpy(expected.data(), want->bytes.data(), want->bytes.size());
      double difference = 0, norm = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        difference += std::pow(double{value->floats[i]} - expected[i], 2);
        norm += std::pow(double{expected[i]}, 2);
      }
      EXPECT_LT(std::sqrt(difference / norm), 1e-4) << traced.model << ", " << device_name << ", " << name;
    }
  }
}

TEST(Trace, NamedValuesAreTheGoldens) {
  expect_goldens({.folder = "gemma4_dense",
                  .model = "gemma4_dense",
                  .tokens = kTokens,
                  .names = {"hidden.0", "layer.0.q", "layer.2.k", "layer.5.attn_out", "hidden.6", "final_norm"}});
}

// A GGUF file has the value heads in another order, and keys are read by two value heads each.
TEST(Trace, HeadsAreShownInTheOrderOfTheGoldens) {
  for (const char* model : {"qwen3_5_moe", "qwen3_5_moe f32"})
    expect_goldens({.folder = "qwen3_5_moe",
                    .model = model,
                    .tokens = {429, 286, 659, 292, 267, 303, 88, 68, 13, 259, 668, 366, 273, 76, 284, 377, 69},
                    .names = {"layer.0.gdn_q", "layer.0.gdn_k", "layer.0.gdn_v", "layer.0.gdn_g", "layer.0.gdn_beta",
                              "layer.0.gdn_core", "layer.0.gdn_out", "layer.0.gdn_proj", "layer.3.attn_ungated"}});
}

TEST(Trace, WhatCannotBeTracedIsOneSentence) {
  RealDevice machine("reference", 1);
  Budget budget;
  const auto problem = [&](const std::vector<int32_t>& tokens) {
    return trace(real_model("gemma4_dense"), *machine.device, budget, Arithmetic::exact, {.tokens = tokens})
        .error()
        .text;
  };
  EXPECT_EQ(problem({}), "trace: has no tokens: want some");
  EXPECT_EQ(problem({1, 768}), "trace: token 1 is 768: want 0 to 767");
  budget.set_limit(Domain::host, 1000);
  EXPECT_NE(problem(kTokens).find("host memory"), std::string::npos);
}

}  // namespace
}  // namespace sluice
