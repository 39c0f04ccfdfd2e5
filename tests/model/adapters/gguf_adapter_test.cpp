// Adapters that are written as llama.cpp's GGUF files: read again, they have the same factors, to the bit. A second.
#include "model/adapters/gguf_adapter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/random.h"
#include "model/adapters/new_adapter.h"
#include "tests/model/text_bench.h"
#include "tests/model/written_gguf.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

class GgufAdapter : public testing::Test {
 protected:
  GgufAdapter() : folder_(cat(testing::TempDir(), "sluice_gguf_adapter_", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~GgufAdapter() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return join_path(folder_, name); }

  static Model stored(const char* name) { return unwrap(open_model(cat(SLUICE_TEST_DATA, "/", name))); }
  Model converted(const Model& model) const {
    return unwrap(open_model(written_gguf(unwrap(export_gguf(model, *find_mix("bf16"))), path("model.gguf"))));
  }

  // A PEFT folder whose factors are all drawn.
  std::shared_ptr<const Adapter> drawn(const Model& model, const AdapterParts& parts, uint32_t rank = 3) const {
    NewAdapter made = unwrap(new_adapter(model, {.rank = rank, .alpha = 7, .parts = parts}));
    uint32_t number = 0;
    for (StoredFactor& one : made.tensors) {
      ++number;
      for (uint32_t i = 0; i < one.numbers.size(); ++i)
        one.numbers[i] = static_cast<float>(philox4x32({i, number, 0, 0}, {3, 5})[0]) / 4294967296.0f - 0.5f;
    }
    unwrap(write_adapter(path("peft"), made.config, made.tensors));
    return unwrap(Adapter::open(model, path("peft")));
  }

  void expect_round_trip(const Model& model, const AdapterParts& parts, uint32_t rank = 3) const {
    SCOPED_TRACE(model.checkpoint().path());
    const auto want = drawn(model, parts, rank);
    unwrap(write_gguf_adapter(path("adapter.gguf"), model, *want));
    const auto found = unwrap(Adapter::open(model, path("adapter.gguf")));
    ASSERT_EQ(found->weights().size(), want->weights().size());
    for (size_t i = 0; i < want->weights().size(); ++i) {
      const AdaptedWeight& one = want->weights()[i];
      const auto same = std::ranges::find(found->weights(), one.weight, &AdaptedWeight::weight);
      ASSERT_NE(same, found->weights().end()) << one.weight;
      EXPECT_EQ(same->scale, one.scale) << one.weight;
      EXPECT_EQ(same->rank, one.rank) << one.weight;
      const AdapterFactors a = want->factors(i);
      const AdapterFactors b = found->factors(static_cast<size_t>(same - found->weights().begin()));
      EXPECT_EQ(a.a, b.a) << one.weight;
      EXPECT_EQ(a.b, b.b) << one.weight;
    }
  }

  const std::string folder_;
};

constexpr AdapterParts kAll = {.attention = true, .mlp = true, .experts = true, .delta_net = true};

// scale B A of all experts of a weight.
std::vector<double> change(const Adapter& adapter, size_t weight) {
  const AdaptedWeight& adapted = adapter.weights()[weight];
  const AdapterFactors factors = adapter.factors(weight);
  const size_t rows = adapted.shape.rows, columns = adapted.shape.columns, rank = adapted.rank;
  std::vector<double> sums;
  for (size_t e = 0; e < adapted.shape.experts; ++e)
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (size_t k = 0; k < rank; ++k)
          sum += double{factors.b[(e * rows + i) * rank + k]} * factors.a[(e * rank + k) * columns + j];
        sums.push_back(adapted.scale * sum);
      }
  return sums;
}

TEST_F(GgufAdapter, HasTheSameFactors) {
  for (const char* name : {"gemma4_dense", "gemma4_moe", "qwen3_5_moe"})
    for (const Model& model : {stored(name), converted(stored(name))}) expect_round_trip(model, kAll);
  expect_round_trip(stored("gemma4_dense"), kAll, 1);  // its A has one row
  for (const Model& model : {stored("deepseek_v3"), converted(stored("deepseek_v3"))})
    expect_round_trip(model, {.mlp = true, .experts = true});
}

// Two weights of one tensor whose factors are their own: one A below the other.
TEST_F(GgufAdapter, JoinsWeightsOfOneTensor) {
  const Model model = stored("gemma4_moe");
  NewAdapter made = unwrap(new_adapter(model, {.rank = 2, .parts = {.experts = true}}));
  std::vector<StoredFactor> apart;
  const WeightShape shape = model.weights().find("layer.0.experts.gate_proj")->shape;
  uint32_t number = 0;
  for (const char* module : {"gate_proj", "up_proj"})
    for (const char* factor : {"lora_A", "lora_B"}) {
      const bool is_a = factor[5] == 'A';
      StoredFactor one{
          .name = cat("base_model.model.model.language_model.layers.0.experts.1.", module, ".", factor, ".weight"),
          .shape = {is_a ? 2 : shape.rows, is_a ? shape.columns : 2},
          .numbers = {}};
      one.numbers.resize(static_cast<size_t>(one.shape[0] * one.shape[1]));
      for (float& x : one.numbers) x = static_cast<float>(++number % 97) / 64;
      apart.push_back(std::move(one));
    }
  unwrap(write_adapter(path("apart"), made.config, apart));
  const Result<std::shared_ptr<const Adapter>> opened = Adapter::open(model, path("apart"));
  ASSERT_TRUE(opened) << opened.error().text;
  unwrap(write_gguf_adapter(path("joined.gguf"), model, **opened));
  const auto joined = unwrap(Adapter::open(model, path("joined.gguf")));
  ASSERT_EQ(joined->weights().size(), 2u);
  EXPECT_EQ(joined->weights().front().rank, 4u);
  // B A, of a rank of 4 with zeros, is what it was.
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(change(*joined, i), change(**opened, i));
}

TEST_F(GgufAdapter, KeysOfLatentAttentionAreRefused) {
  const Model model = stored("deepseek_v3");
  const auto adapter = drawn(model, {.attention = true});
  EXPECT_EQ(check_gguf_adapter(model, *adapter).error().text,
            path("peft") +
                ": changes layer.0.k_b_proj, to which llama.cpp applies no adapter: want an adapter of other "
                "products for a GGUF file");
}

}  // namespace
}  // namespace sluice
