// A family's program with adapters on every product, against the same program whose weights are W + scale B A.
#include "graph/ops/adapter.h"

#include <cmath>
#include <map>

#include "base/random.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"

namespace sluice {
namespace {

constexpr uint32_t kSlots = 2, kRank = 3;
constexpr float kScale = 0.75f;
const AdapterOptions kEveryProduct = {.slots = kSlots, .rank = kRank};

const std::vector<int32_t> kTokens = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43, 38, 32, 79, 50, 28, 84, 19};
const std::vector<int32_t> kWanted = {0, 7, 19};

std::vector<float> decoded(const TensorSource& source, uint32_t matrix) {
  const WeightShape& shape = source.shape;
  std::vector<float> numbers(size_t{shape.rows} * shape.columns);
  for (uint32_t row = 0; row < shape.rows; ++row)
    decode_weight_row(source, matrix, row, numbers.data() + size_t{row} * shape.columns);
  return numbers;
}

TensorSource floats(const WeightShape& shape, std::vector<float> numbers) {
  const auto owner = std::make_shared<std::vector<float>>(std::move(numbers));
  return {.shape = shape,
          .format = Format::f32,
          .bytes = reinterpret_cast<const std::byte*>(owner->data()),
          .expert_stride = uint64_t{shape.rows} * shape.columns * 4,
          .row_stride = uint64_t{shape.columns} * 4,
          .owner = owner};
}

// The model's weights, and drawn factors for those that the program declares.
class WithFactors : public WeightSource {
 public:
  WithFactors(const Model& model, const Program& program) : model_(model) {
    uint32_t number = 0;
    for (const WeightDecl& weight : program.weights)
      if (weight.name.ends_with(".adapter_a") || weight.name.ends_with(".adapter_b")) {
        std::vector<float> numbers(size_t{weight.shape.experts} * weight.shape.rows * weight.shape.columns);
        const float spread = 1.0f / std::sqrt(static_cast<float>(weight.shape.columns));
        for (uint32_t i = 0; i < numbers.size(); ++i)
          numbers[i] = spread * (static_cast<float>(philox4x32({i, 0, 0, 0}, {1, number})[0]) / 2147483648.0f - 1.0f);
        ++number;
        factors_[weight.name] = floats(weight.shape, std::move(numbers));
      }
  }
  size_t count() const { return factors_.size(); }
  Result<TensorSource> find(const std::string& name) const override {
    const auto found = factors_.find(name);
    if (found != factors_.end()) return found->second;
    return model_.weights().find(name);
  }

 private:
  const Model& model_;
  std::map<std::string, TensorSource> factors_;
};

// W + scale B A of one slot, summed in f64, in the place of each weight that has factors.
class Merged : public WeightSource {
 public:
  Merged(const WithFactors& weights, uint32_t slot) : weights_(weights), slot_(slot) {}
  Result<TensorSource> find(const std::string& name) const override {
    TRY(const TensorSource source, weights_.find(name));
    if (!weights_.find(name + ".adapter_a").ok()) return source;
    std::vector<float> all;
    for (uint32_t expert = 0; expert < source.shape.experts; ++expert) {
      const std::vector<float> w = merged(source, name, expert);
      all.insert(all.end(), w.begin(), w.end());
    }
    return floats(source.shape, std::move(all));
  }

 private:
  std::vector<float> merged(const TensorSource& source, const std::string& name, uint32_t expert) const {
    const uint32_t matrix = slot_ * source.shape.experts + expert;
    const std::vector<float> a = decoded(*weights_.find(name + ".adapter_a"), matrix),
                             b = decoded(*weights_.find(name + ".adapter_b"), matrix);
    std::vector<float> w = decoded(source, expert);
    const uint32_t columns = source.shape.columns;
    for (uint32_t row = 0; row < source.shape.rows; ++row)
      for (uint32_t column = 0; column < columns; ++column) {
        double sum = 0;
        for (uint32_t k = 0; k < kRank; ++k) sum += double{b[row * kRank + k]} * double{a[k * columns + column]};
        float& number = w[size_t{row} * columns + column];
        number = static_cast<float>(double{number} + double{kScale} * sum);
      }
    return w;
  }

  const WithFactors& weights_;
  uint32_t slot_;
};

double relative_norm(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double{got[i]} - double{want[i]}, 2);
    norm += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

class ModelAdapters : public tests::TinyModel {
 protected:
  std::unique_ptr<Device> device(bool on_cpu) {
    return on_cpu ? make_cpu_device({.pool = &pool_}) : make_reference_device();
  }
  std::vector<float> logits(const Model& model, const WeightSource& weights, const TextOptions& options, bool on_cpu,
                            int32_t slot = 0) {
    TextBench bench(model, *model.record_text(options), 32, device(on_cpu), &weights);
    bench.use_adapter(slot, kScale);
    return bench.play(kTokens, kWanted, {find_value(bench.program(), "logits")})[0];
  }

  // The head is no embedding table here, which the merged weights would change as well.
  void expect_as_merged(tests::TinyShape shape) {
    shape.tied = false;
    put_model(shape);
    const Result<Model> model = open_model(folder_);
    ASSERT_TRUE(model) << model.error().text;
    const Program program = *model->record_text({.adapters = kEveryProduct});
    size_t products = 0;
    for (const Op& op : program.ops)
      if (const auto* linear = std::get_if<Linear>(&op); linear != nullptr) {
        EXPECT_TRUE(linear->adapter) << program.weights[linear->weight].name;
        ++products;
      } else if (const auto* experts = std::get_if<Experts>(&op); experts != nullptr) {
        for (const AdapterOperand& one : {experts->adapters.gate(), experts->adapters.up(), experts->adapters.down()})
          EXPECT_TRUE(one) << program.weights[experts->gate].name;
        products += 3;
      }
    const WithFactors weights(*model, program);
    ASSERT_EQ(weights.count(), 2 * products);
    for (const bool on_cpu : {false, true}) {
      SCOPED_TRACE(on_cpu ? "cpu" : "reference");
      const std::vector<float> plain = logits(*model, weights, {}, on_cpu);
      EXPECT_EQ(logits(*model, weights, {.adapters = kEveryProduct}, on_cpu), plain);
      for (const int32_t slot : {1, 2}) {
        const std::vector<float> merged = logits(*model, Merged(weights, static_cast<uint32_t>(slot - 1)), {}, on_cpu);
        EXPECT_GT(relative_norm(plain, merged), 0.1);
        // f32 rounds the merged weights and the two sums apart: some 2^-24 a product, over a few dozen of them.
        EXPECT_LT(relative_norm(logits(*model, weights, {.adapters = kEveryProduct}, on_cpu, slot), merged), 1e-5);
      }
    }
  }

  ThreadPool pool_{2};
};

TEST_F(ModelAdapters, OnEveryProductOfADenseProgramAreItsMergedWeights) { expect_as_merged(tests::like_e4b()); }
TEST_F(ModelAdapters, OnEveryProductOfAMixtureAreItsMergedWeights) { expect_as_merged(tests::like_26b()); }

TEST_F(ModelAdapters, AreOnlyOnTheWeightsThatAreListed) {
  put_model(tests::like_12b());
  const Result<Model> model = open_model(folder_);
  ASSERT_TRUE(model) << model.error().text;
  const AdapterOptions some = {.slots = 1, .rank = 2, .weights = {"layer.1.q_proj", "layer.5.down_proj"}};
  std::vector<std::string> found;
  const Program program = *model->record_text({.adapters = some});
  for (const Op& op : program.ops)
    if (const auto* linear = std::get_if<Linear>(&op); linear != nullptr && linear->adapter)
      found.push_back(program.weights[linear->weight].name);
  EXPECT_EQ(found, some.weights);
}

}  // namespace
}  // namespace sluice
