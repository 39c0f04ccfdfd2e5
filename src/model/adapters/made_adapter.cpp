// An adapter with drawn factors, for benchmarks.
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "format/format.h"
#include "model/adapters/adapter.h"

namespace sluice {
namespace {

constexpr std::string_view kFirstFactor = ".adapter_a";
constexpr float kSpread = 0.01f;  // so small that activations keep their size

// Numbers from -kSpread to kSpread.
class Drawn {
 public:
  explicit Drawn(uint64_t seed) : state_(seed) {}

  TensorSource matrix(uint32_t rows, uint32_t columns) {
    const uint64_t line = row_bytes(Format::f16, columns);
    const auto memory = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows * line));
    std::vector<float> numbers(columns);
    for (uint32_t row = 0; row < rows; ++row) {
      for (float& number : numbers) number = next();
      encode_row(Format::f16, numbers.data(), memory->data() + row * line, columns);
    }
    return {.shape = {.experts = 1, .rows = rows, .columns = columns},
            .format = Format::f16,
            .bytes = memory->data(),
            .expert_stride = rows * line,
            .row_stride = line,
            .owner = memory};
  }

 private:
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return kSpread * (static_cast<float>(state_ >> 40) / static_cast<float>(1 << 23) - 1.0f);
  }

  uint64_t state_;
};

}  // namespace

Result<std::shared_ptr<const Adapter>> Adapter::made(const Model& model, uint32_t rank, uint64_t seed) {
  TRY(const Program program, model.record_text({.adapters = {.slots = 1, .rank = rank}}));
  Adapter adapter;
  adapter.path_ = cat("made up ", seed);
  adapter.digest_ = cat("made up ", seed, " of rank ", rank);
  Drawn drawn(seed);
  for (const WeightDecl& decl : program.weights) {
    if (!ends_with(decl.name, kFirstFactor)) continue;
    const std::string weight = decl.name.substr(0, decl.name.size() - kFirstFactor.size());
    const WeightShape* const shape = model.weights().shape_of(weight);
    CHECK(shape != nullptr);
    adapter.weights_.push_back(
        {.weight = weight, .shape = *shape, .rank = rank, .scale = 1, .a = Format::f16, .b = Format::f16});
    Pair pair{.a = drawn.matrix(shape->experts * rank, shape->columns),
              .b = drawn.matrix(shape->experts * shape->rows, rank)};
    pair.rank = rank;
    pair.experts = shape->experts;
    pair.stored_rows = shape->rows;
    pair.stored_a = adapter.files_.size();
    pair.stored_b = pair.stored_a + 1;
    for (const TensorSource& source : {pair.a, pair.b})
      adapter.files_.push_back({.name = cat(weight, ".", adapter.files_.size()),
                                .shape = {source.shape.rows, source.shape.columns},
                                .source = source});
    Stored& stored = adapter.stored_.emplace_back();
    stored.pairs.push_back(std::move(pair));
  }
  return std::shared_ptr<const Adapter>(new Adapter(std::move(adapter)));
}

}  // namespace sluice
