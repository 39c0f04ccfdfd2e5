// A weight that is not a number, on real devices: the sentence names token, layer and op.
#include <gtest/gtest.h>

#include "engine/engine_impl.h"
#include "tests/engine/real_engine.h"
#include "tests/engine/run_until_idle.h"

namespace sluice {
namespace {

// The weights of a model of bf16, one element of one of them not a number.
class Poisoned : public WeightSource {
 public:
  Poisoned(const WeightSource& weights, std::string name, size_t element)
      : weights_(weights), name_(std::move(name)), element_(element) {}

  Result<TensorSource> find(const std::string& name) const override {
    TRY(TensorSource source, weights_.find(name));
    if (name != name_) return source;
    CHECK(source.format == Format::bf16 && source.shape.experts == 1);
    const std::byte* const stored = source.bytes;
    auto copy = std::make_shared<std::vector<std::byte>>(stored, stored + source.row_stride * source.shape.rows);
    (*copy)[2 * element_] = std::byte{0xc0};
    (*copy)[2 * element_ + 1] = std::byte{0x7f};
    source.bytes = copy->data();
    source.owner = copy;
    return source;
  }

 private:
  const WeightSource& weights_;
  std::string name_;
  size_t element_;
};

std::string failure_of(const char* device, Arithmetic arithmetic, const WeightSource& weights,
                       const std::vector<int32_t>& prompt) {
  const Model& model = real_model("gemma4_dense");
  TextModel text{.program = *model.record_text(), .weights = &weights, .vocabulary = 768, .context = 512};
  RealDevice machine(device, 1);
  Budget budget;
  const auto engine = unwrap(create_engine(std::move(text), *machine.device, budget, {.arithmetic = arithmetic}));
  Request request;
  request.prompt = prompt;
  request.max_tokens = 3;
  const RequestId id = unwrap(engine->submit(request));
  run_until_idle(*engine);
  const Progress progress = unwrap(engine->collect(id));
  return progress.failure ? progress.failure->text : "finite";
}

TEST(NonFinite, AWeightThatIsNotANumberIsNamedByItsOp) {
  const BoundWeights& weights = real_model("gemma4_dense").weights();
  const Poisoned norm(weights, "layer.3.post_attention_norm", 5), product(weights, "layer.1.o_proj", 70);
  const Poisoned embedding(weights, "embed_tokens", 64 * 300);
  for (const char* device : {"reference", "cpu"}) {
    for (const Arithmetic arithmetic : {Arithmetic::exact, Arithmetic::fast}) {
      const auto failure = [&](const WeightSource& poisoned, const std::vector<int32_t>& prompt) {
        return failure_of(device, arithmetic, poisoned, prompt);
      };
      EXPECT_EQ(failure(norm, {2, 5, 7}), "token 0: layer 3, rms_norm: result is not finite") << device;
      EXPECT_EQ(failure(product, {2, 5, 7}), "token 0: layer 1, linear: result is not finite") << device;
      EXPECT_EQ(failure(embedding, {2, 5, 300, 9}), "token 2: embed: result is not finite") << device;
      EXPECT_EQ(failure(weights, {2, 5, 300, 9}), "finite") << device;
    }
  }
}

}  // namespace
}  // namespace sluice
