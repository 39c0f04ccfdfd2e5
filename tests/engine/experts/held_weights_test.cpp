// Weights of files that cannot be mapped, as in a page, on a device that computes in the host's memory. The bits are
// those of mapped files, with resident and with streamed experts.
#include "engine/experts/held_weights.h"

#include "engine/engine_impl.h"
#include "tests/engine/real_engine.h"

namespace sluice {
namespace {

// A model's weights where its files are read and not mapped.
class FiledWeights final : public WeightSource {
 public:
  explicit FiledWeights(const Model& model) : model_(&model) {
    for (const std::string& path : model.checkpoint().files()) files_.push_back(*FileSource::open(path));
  }

  Result<TensorSource> find(const std::string& name) const override {
    TRY(TensorSource source, model_->weights().find(name));
    move(source.bytes, source.experts);
    for (WeightPart& part : source.parts) move(part.bytes, part.experts);
    return source;
  }

  TextModel text() const {
    TextModel text = *text_model(*model_);
    text.weights = this;
    text.files.place = [this](const StoredAt& at) -> std::optional<FilePlace> {
      for (uint32_t file = 0; file < files_.size(); ++file)
        if (const auto offset = StoredBytes(StoredAt(*files_[file], 0), files_[file]->size()).offset_of(at))
          return FilePlace{file, *offset};
      return std::nullopt;
    };
    return text;
  }

 private:
  void move(StoredAt& at, std::vector<StoredAt>& experts) const {
    experts.insert(experts.begin(), at);
    for (StoredAt& one : experts)
      if (const auto place = model_->checkpoint().place_of(one)) one = StoredAt(*files_[place->file], place->offset);
    at = experts.front();
    experts.erase(experts.begin());
  }

  const Model* model_;
  std::vector<std::unique_ptr<FileSource>> files_;
};

std::vector<float> rows_of(const TensorSource& source) {
  std::vector<float> all(size_t{source.shape.experts} * source.shape.rows * source.shape.columns);
  float* to = all.data();
  for (uint32_t expert = 0; expert < source.shape.experts; ++expert)
    for (uint32_t row = 0; row < source.shape.rows; ++row, to += source.shape.columns)
      decode_weight_row(source, expert, row, to);
  return all;
}

class HeldWeightsTest : public testing::TestWithParam<const char*> {};

TEST_P(HeldWeightsTest, AreThoseOfTheFiles) {
  const Model& model = real_model(GetParam());
  const FiledWeights filed(model);
  const TextModel text = filed.text();
  Budget budget;
  const auto held = *HeldWeights::take(text.program, filed, /*streams=*/false, budget);
  ASSERT_TRUE(held);
  for (const WeightDecl& weight : text.program.weights) {
    const TensorSource found = *held->find(weight.name), want = *model.weights().find(weight.name);
    EXPECT_TRUE(found.bytes.in_memory()) << weight.name;
    EXPECT_EQ(rows_of(found), rows_of(want)) << weight.name;
  }
  EXPECT_EQ(budget.used(Domain::host), *HeldWeights::table_bytes(text.program, filed));
}

TEST_P(HeldWeightsTest, AreNoneWhereFilesAreMapped) {
  const Model& model = real_model(GetParam());
  Budget budget;
  EXPECT_EQ(*HeldWeights::take(text_model(model)->program, model.weights(), false, budget), nullptr);
}

TEST_P(HeldWeightsTest, GiveTheBitsOfMappedOnes) {
  const Model& model = real_model(GetParam());
  EngineOptions options;
  options.context = 256;
  Request request;
  request.max_tokens = 6;
  request.logits_at = {37};
  for (uint32_t i = 0; i < 75; ++i)
    request.prompt.push_back(static_cast<int32_t>((i * i * 7 + i) % model.facts().vocabulary));
  RealEngine mapped(model, "cpu", options);
  const Progress want = mapped.answer(request);
  const FiledWeights filed(model);
  const bool mixture = std::string(GetParam()).find("dense") == std::string::npos;
  for (const uint64_t expert_bytes : {0, 100'000}) {
    if (expert_bytes != 0 && !mixture) continue;
    options.experts.bytes = expert_bytes;
    RealDevice machine("cpu", 1);
    Budget budget;
    const auto engine = create_engine(filed.text(), *machine.device, budget, options, std::nullopt);
    ASSERT_TRUE(engine) << engine.error().text;
    const RequestId id = *(*engine)->submit(request);
    run_until_idle(**engine, Waiting::yes);
    EXPECT_TRUE(same_bits(*(*engine)->collect(id), want)) << expert_bytes;
    if (expert_bytes != 0) EXPECT_GT((*engine)->expert_stats()->misses, (*engine)->expert_stats()->slots);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HeldWeightsTest,
                         testing::Values("gemma4_dense", "gemma4_moe", "gemma4_moe q8_0 packed", "qwen3_5_moe",
                                         "qwen3_5_moe_mlx2", "deepseek_v3", "deepseek_v3_mlx4",
                                         "gemma4_moe as gptq_order", "gemma4_moe as awq",
                                         "gemma4_moe as packed_int4_group"),
                         real_model_name);

}  // namespace
}  // namespace sluice
