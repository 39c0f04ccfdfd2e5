// Requests with adapters: rows with different ones share steps, and an answer depends on its own alone. Seconds, for
// each change.
#include <gtest/gtest.h>

#include "engine/state/state_store.h"
#include "tests/engine/real_engine.h"
#include "tests/model/adapters/written_adapter.h"
#include "tests/model/text_bench.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

constexpr uint32_t kAnswer = 12;

class AdapterEngine : public tests::TinyModel {
 protected:
  AdapterEngine() {
    put_model(tests::like_e4b());
    model_ = std::make_unique<Model>(unwrap(open_model(folder_)));
    const std::string layer = "model.language_model.layers.";
    a_ = adapter("a", {{layer + "0.self_attn.q_proj", 32, 64}, {layer + "3.mlp.down_proj", 48, 32}}, 4, 1);
    b_ = adapter("b", {{layer + "0.mlp.gate_proj", 32, 48}, {"lm_head", 32, 96}}, 20, 2);
  }

  std::shared_ptr<const Adapter> adapter(const char* name, const std::vector<tests::AdaptedModule>& modules,
                                         int64_t rank, uint64_t seed) const {
    tests::write_adapter(path(name), tests::peft_config(static_cast<double>(2 * rank)),
                         tests::peft_factors(modules, rank), seed);
    return unwrap(Adapter::open(*model_, path(name)));
  }
  AdapterSum only_a(float scale = 1) const { return {{a_, scale}}; }
  AdapterSum only_b() const { return {{b_}}; }
  AdapterSum both() const { return {{a_, 0.5f}, {b_, -1}}; }

  RealEngine engine(const std::string& device, std::vector<AdapterSum> adapters, uint32_t threads = 1,
                    StateStore* states = nullptr) const {
    EngineOptions options;
    options.sequences = 4;
    options.adapters = std::move(adapters);
    options.states = states;
    return RealEngine(*model_, device, std::move(options), threads);
  }
  RealEngine with_all(const std::string& device, uint32_t threads = 1, StateStore* states = nullptr) const {
    return engine(device, {only_a(), only_b(), both()}, threads, states);
  }
  // Room for any adapter, and none to begin with.
  RealEngine with_room(const std::string& device, uint32_t slots) const {
    EngineOptions options;
    options.sequences = 4;
    options.adapter_room = {.slots = slots, .rank = 24};
    return RealEngine(*model_, device, std::move(options), 1);
  }
  static Request request(const AdapterSum& adapters, uint32_t length = 90) {
    Request request;
    for (uint32_t i = 0; i < length; ++i) request.prompt.push_back(static_cast<int32_t>((7 * i + i / 11) % 96));
    request.max_tokens = kAnswer;
    request.sampling.temperature = 0;
    request.logits_at = {length - 1};
    request.adapters = adapters;
    return request;
  }

  std::unique_ptr<Model> model_;
  std::shared_ptr<const Adapter> a_, b_;
};

TEST_F(AdapterEngine, AnswersDoNotDependOnTheNeighboursAdapters) {
  for (const char* device : {"reference", "cpu"}) {
    SCOPED_TRACE(device);
    const std::vector<AdapterSum> sums = {only_a(), only_b(), {}, both()};
    std::vector<Progress> alone;
    for (const AdapterSum& sum : sums) alone.push_back(with_all(device).answer(request(sum)));
    for (size_t i = 0; i < sums.size(); ++i)
      for (size_t j = 0; j < i; ++j) EXPECT_NE(alone[i].logits, alone[j].logits) << i << " and " << j;
    RealEngine together = with_all(device, 2);
    std::vector<RequestId> ids;
    for (const AdapterSum& sum : sums) ids.push_back(together.submit(request(sum)));
    together.run();
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_TRUE(same_bits(together.collect(ids[i]), alone[i])) << i;
  }
}

TEST_F(AdapterEngine, AScaleOfZeroHasTheBitsOfNoAdapter) {
  const Progress plain = engine("cpu", {}).answer(request({}));
  RealEngine adapted = with_all("cpu");
  EXPECT_TRUE(same_bits(adapted.answer(request({})), plain));
  const Progress zero = adapted.answer(request(only_a(0)));
  EXPECT_EQ(zero.reused_tokens, 64u);  // of the request without adapters
  EXPECT_TRUE(same_bits(zero, plain));
}

// A sum that is one adapter of a higher rank has the logits of both changes, up to the order of the sum over the rank.
TEST_F(AdapterEngine, ChangesOfASumAddUp) {
  const std::vector<float> sum =
      engine("reference", {{{a_, 0.5f}, {a_, 0.75f}}}).answer(request({{a_, 0.5f}, {a_, 0.75f}})).logits;
  const std::vector<float> once = engine("reference", {only_a()}).answer(request(only_a(1.25f))).logits;
  ASSERT_EQ(sum.size(), once.size());
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], once[i], 1e-3f * (1 + std::abs(once[i])));
}

TEST_F(AdapterEngine, CachedRowsOfOtherAdaptersAreNotUsed) {
  RealEngine shared = with_all("cpu");
  const Progress plain = shared.answer(request({}));
  const Progress first = shared.answer(request(only_a()));
  EXPECT_EQ(first.reused_tokens, 0u);
  EXPECT_TRUE(same_bits(first, with_all("cpu").answer(request(only_a()))));
  EXPECT_EQ(shared.answer(request(only_a(0.5f))).reused_tokens, 0u);
  const Progress again = shared.answer(request(only_a()));
  EXPECT_EQ(again.reused_tokens, 64u);
  EXPECT_TRUE(same_bits(again, first));
  EXPECT_FALSE(same_bits(again, plain));
}

TEST_F(AdapterEngine, ASequenceGoesOnWithOtherAdaptersAsIfItHadThemFromTheStart) {
  RealEngine shared = with_all("cpu");
  Request begin = request(only_a());
  begin.max_tokens = 0;
  begin.keep_sequence = true;
  const Progress begun = shared.answer(begin);
  Request more = request(only_b(), 5);
  more.logits_at = {4};
  more.sequence = begun.sequence;
  const Progress changed = shared.answer(more);
  Request whole = request(only_b());
  whole.prompt.insert(whole.prompt.end(), more.prompt.begin(), more.prompt.end());
  whole.logits_at = {static_cast<uint32_t>(whole.prompt.size() - 1)};
  EXPECT_TRUE(same_bits(changed, with_all("cpu").answer(whole)));
}

TEST_F(AdapterEngine, StatesOnDiskBelongToTheirAdapters) {
  const auto answer = [&](const AdapterSum& sum) {
    StateStore states(path("states"), uint64_t{1} << 30);
    RealEngine one = with_all("cpu", 1, &states);
    Request kept = request(sum);
    kept.keep_sequence = true;
    const Progress progress = one.answer(kept);
    one.engine->keep_state(progress.sequence);
    return progress;
  };
  const Progress a = answer(only_a());
  EXPECT_EQ(answer({}).restored_tokens, 0u);
  EXPECT_EQ(answer(both()).restored_tokens, 0u);
  const Progress again = answer(only_a());
  EXPECT_EQ(again.restored_tokens, 64u);
  EXPECT_TRUE(same_bits(again, a));
}

TEST_F(AdapterEngine, SavedSequencesKeepTheirAdapters) {
  RealEngine one = with_all("cpu");
  Request begin = request(only_a());
  begin.keep_sequence = true;
  const Progress begun = one.answer(begin);
  ASSERT_TRUE(one.engine->save(begun.sequence, path("saved")).ok());
  std::string note;
  for (const bool same : {true, false}) {
    Request more = request(same ? only_a() : only_b(), 5);
    more.logits_at.clear();
    more.sequence = unwrap(one.engine->load(path("saved"), &note));
    EXPECT_EQ(one.answer(more).reused_tokens, same ? 64u : 0u);
  }
}

// A head that shares its table with the embedding is written apart, since only the head has changed.
TEST_F(AdapterEngine, FilesWithTheChangesMergedAnswerAlike) {
  const AdapterSum sum = both();
  const GgufExport out = unwrap(export_gguf(*model_, *find_mix("f32"), {}, ExpertLayout::stacked, sum));
  const Model merged = unwrap(open_model(written_gguf(out, path("merged.gguf"))));
  EXPECT_NE(merged.weights().bound("lm_head"), nullptr);
  EngineOptions exact;
  exact.arithmetic = Arithmetic::exact;
  const std::vector<float> got = RealEngine(merged, "cpu", exact).answer(request({})).logits;
  exact.adapters = {sum};
  const std::vector<float> want = RealEngine(*model_, "cpu", exact).answer(request(sum)).logits;
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-3f * (1 + std::abs(want[i])));
}

// Of both tables of a Gemma with per-layer embeddings: tokens read the changed rows, and the head keeps the table.
TEST_F(AdapterEngine, EmbeddingsAreChangedWhereTokensAreRead) {
  std::vector<tests::TinyTensor> factors;
  for (const auto& [name, width] :
       {std::pair<const char*, int64_t>("embed_tokens", 32), {"embed_tokens_per_layer", 9 * 8}})
    for (const char part : {'A', 'B'})
      factors.push_back({cat("base_model.model.model.language_model.", name, ".lora_embedding_", part),
                         part == 'A' ? std::vector<int64_t>{3, 96} : std::vector<int64_t>{width, 3}});
  tests::write_adapter(path("tables"), tests::peft_config(6), factors);
  const AdapterSum sum = {{unwrap(Adapter::open(*model_, path("tables"))), 0.5f}};
  const GgufExport out = unwrap(export_gguf(*model_, *find_mix("f32"), {}, ExpertLayout::stacked, sum));
  const Model merged = unwrap(open_model(written_gguf(out, path("merged.gguf"))));
  EngineOptions plain, adapted;
  plain.arithmetic = adapted.arithmetic = Arithmetic::exact;
  adapted.adapters = {sum};
  const std::vector<float> want = RealEngine(merged, "reference", plain).answer(request({})).logits;
  for (const char* device : {"reference", "cpu"}) {
    SCOPED_TRACE(device);
    RealEngine running(*model_, device, adapted);
    const std::vector<float> got = running.answer(request(sum)).logits;
    const std::vector<float> without = RealEngine(*model_, device, plain).answer(request({})).logits;
    EXPECT_EQ(running.answer(request({})).logits, without);
    ASSERT_EQ(got.size(), want.size());
    float change = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-3f * (1 + std::abs(want[i])));
      change = std::max(change, std::abs(got[i] - without[i]));
    }
    EXPECT_GT(change, 0.1f);
  }
}

TEST_F(AdapterEngine, AdaptersThatFitNoSlotAreRefused) {
  RealEngine some = engine("cpu", {only_a()});
  EXPECT_TRUE(some.engine->submit(request(only_a(3))));
  const auto refused = [&](const AdapterSum& sum) {
    const auto id = some.engine->submit(request(sum));
    return id ? std::string() : id.error().text;
  };
  EXPECT_NE(refused(only_b()).find("b: rank 20: want at most 16, as the slots of adapters have it"), std::string::npos);
  const auto other = adapter("other", {{"model.language_model.layers.1.self_attn.q_proj", 32, 64}}, 4, 1);
  EXPECT_NE(refused({{other}}).find("other: changes layer.1.q_proj, which takes no adapter"), std::string::npos);
  EXPECT_FALSE(engine("cpu", {}).engine->submit(request(only_a())));
}

// Of an engine that was opened with room alone.
TEST_F(AdapterEngine, AdaptersComeAndGoWhileItRuns) {
  for (const char* device : {"reference", "cpu"}) {
    SCOPED_TRACE(device);
    RealEngine running = with_room(device, 1);
    const Progress plain = engine(device, {}).answer(request({}));
    EXPECT_TRUE(same_bits(running.answer(request({})), plain));
    for (const AdapterSum& sum : {only_a(), only_b(), both(), only_a(0.5f)}) {
      EXPECT_TRUE(same_bits(running.answer(request(sum)), with_all(device).answer(request(sum))));
      EXPECT_EQ(running.engine->adapters().size(), 1u);
    }
    running.engine->drop_adapter(*a_);
    EXPECT_TRUE(running.engine->adapters().empty());
    EXPECT_TRUE(same_bits(running.answer(request(only_a(0.5f))), with_all(device).answer(request(only_a(0.5f)))));
  }
}

// The third request waits for a slot; the fourth takes the first one's.
TEST_F(AdapterEngine, RequestsWaitForASlotAndTheLeastUsedGivesWay) {
  RealEngine running = with_room("cpu", 2);
  const std::vector<AdapterSum> sums = {only_a(), only_b(), both(), only_a(-1)};
  std::vector<RequestId> ids;
  for (const AdapterSum& sum : sums) ids.push_back(running.submit(request(sum)));
  running.engine->step();
  running.engine->drop_adapter(*a_);  // is used
  running.run();
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_TRUE(same_bits(running.collect(ids[i]), with_all("cpu").answer(request(sums[i])))) << i;
  ASSERT_EQ(running.engine->adapters().size(), 2u);
  running.answer(request(only_a()));
  running.answer(request(only_b()));
  EXPECT_EQ(running.engine->adapters().front().front().adapter, b_);
  EXPECT_EQ(running.engine->adapters().back().front().adapter, a_);
}

TEST_F(AdapterEngine, FactorsAreALineOfTheBudget) {
  const auto bytes = [](const RealEngine& one) {
    uint64_t found = 0;
    for (const BudgetLine& line : one.budget.lines())
      if (line.purpose == Purpose::adapters) found += line.bytes;
    return found;
  };
  EXPECT_EQ(bytes(engine("cpu", {})), 0u);
  // Ranks lie in steps of 16: of two weights, [16, 32] and [64, 16], [16, 48] and [32, 16].
  EXPECT_EQ(bytes(engine("cpu", {only_a()})), 4u * 16u * (32 + 64 + 48 + 32));
}

}  // namespace
}  // namespace sluice
