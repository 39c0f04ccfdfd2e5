// A numerics id promises bits: a state saved under it continues as if it had never been saved. These are digests of the
// scalar level's bits, which are the same on every processor and with every compiler.
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
    {"gemma4_dense", Arithmetic::exact, "cpu/scalar/exact/f32kv/v3",
     "97c65ac8866105155c868f0cd4e98323e21751a52ec862ba1ade3fc283b7cd5f"},
    {"gemma4_dense", Arithmetic::fast, "cpu/scalar/fast/f16kv/v4",
     "0a785c73040ac99f85e6d5b768ea0b12ed42f36bad4785d64b5630f26e6302a5"},
    {"gemma4_moe q8_0", Arithmetic::fast, "cpu/scalar/fast/f16kv/v4",
     "2179a96cdb44573b9adcbf733ab6fad61730ff6434070faa67342fe5a97be862"},
    {"gemma4_moe q4_k_m", Arithmetic::fast, "cpu/scalar/fast/f16kv/v4",
     "deba4f287bcde938e73947fd0ca1c69b2011c9c2d037e26983ac1114024f0598"},
    {"qwen3_5_moe q8_0", Arithmetic::fast, "cpu/scalar/fast/f16kv/v4",
     "5c2bad627bdf2dd3faf7df8d31a742edf3a6399e656ad002dbbb55864cdc9264"},
    {"deepseek_v3 q8_0", Arithmetic::fast, "cpu/scalar/fast/f16kv/v4",
     "c225c1db5ff8731ce9a5f53a26ceabaf6206d4e56ceaab7b8eab2f2a043e2a6d"},
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
    // Above the tokens that stand for pictures and sounds.
    for (int32_t i = 0; i < 70; ++i) request.prompt.push_back(24 + (i * i * 7 + i * 3 + 1) % 700);
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
