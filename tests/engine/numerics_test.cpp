// A numerics id promises bits: what was saved under it goes on as if it had never been saved. Here are the bits of the
// scalar level, which is the same arithmetic on every processor and of every compiler, by digest.
//
// Where a digest changes and its id does not, states of older builds would be taken up and go on in other bits: raise
// the version in CpuPlan::numerics_id, then put id and digest here. The other levels follow it in tests of their own.
#include "base/sha256.h"
#include "tests/engine/real_engine.h"

namespace sluice {
namespace {

struct Pinned {
  const char* model;
  Arithmetic arithmetic;
  const char* numerics;
  const char* logits;  // SHA-256 of three rows, two of the prompt
};

constexpr Pinned kPinned[] = {
    {"gemma4_dense", Arithmetic::exact, "cpu/scalar/exact/f32kv/v2",
     "61e674f856c6e8e812b19894ee9ddb055d9963c4549deb7e9041725a1e8b1350"},
    {"gemma4_dense", Arithmetic::fast, "cpu/scalar/fast/f16kv/v3",
     "0560b006206e5ef826387900c91d7dd15076a75722c20a9cf4780d29635e79bb"},
    {"gemma4_moe q8_0", Arithmetic::fast, "cpu/scalar/fast/f16kv/v3",
     "77696f7d7b50af95db3b5666b939d9aa7257041d1b701c62cd1900f20303acf5"},
    {"gemma4_moe q4_k_m", Arithmetic::fast, "cpu/scalar/fast/f16kv/v3",
     "1f0f38de9a59aa0572518440dbbfc782df342433f1e35a93b2176b9d6c515cae"},
    {"qwen3_5_moe q8_0", Arithmetic::fast, "cpu/scalar/fast/f16kv/v3",
     "52579fd2681c205563b3aa9105e2b51934472d35677136704b7cbf0bb6e456e7"},
    {"deepseek_v3 q8_0", Arithmetic::fast, "cpu/scalar/fast/f16kv/v3",
     "18179d2d89e791010aa4ae9bcbb378bf4189ae9a7872116f9005f926236349ad"},
};

TEST(NumericsId, StandsForTheSameBits) {
  for (const Pinned& pinned : kPinned) {
    ThreadPool pool(1);
    const std::unique_ptr<Device> device = make_cpu_device({.pool = &pool, .limit = SimdLevel::scalar});
    Budget budget;
    EngineOptions options;
    options.arithmetic = pinned.arithmetic;
    options.context = 128;
    const std::unique_ptr<Engine> engine = unwrap(Engine::create(real_model(pinned.model), *device, budget, options));
    Request request;
    for (int32_t i = 0; i < 70; ++i) request.prompt.push_back((i * i * 7 + i * 3 + 1) % 700);
    request.logits_at = {0, 40, 69};
    const RequestId id = unwrap(engine->submit(request));
    run_until_idle(*engine);
    const Progress progress = unwrap(engine->collect(id));
    Sha256 digest;
    digest.add(std::as_bytes(std::span(progress.logits)));
    EXPECT_EQ(engine->numerics_id(), pinned.numerics) << pinned.model;
    EXPECT_EQ(digest.finish_hex(), pinned.logits)
        << pinned.model << ": other bits than those of " << pinned.numerics << ": raise its version";
  }
}

}  // namespace
}  // namespace sluice
