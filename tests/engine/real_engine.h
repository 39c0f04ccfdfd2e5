// Engines over real devices and the reference models of tests/data, and answers to be compared bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "engine/engine.h"
#include "model/model.h"
#include "tests/engine/run_until_idle.h"
#include "tests/unwrap.h"

namespace sluice {

// "gemma4_dense", "gemma4_moe", or the same converted: "gemma4_dense q8_0", "gemma4_moe q8_0 packed"; or quantised,
// with a tensor an expert: "gemma4_moe as gptq" (tests/model/quantised_folder.h). Kept for the whole program.
const Model& real_model(const std::string& name);
// Windows in integers, windows, slots, latents.
inline constexpr const char* kEveryStateKind[] = {"gemma4_dense q8_0", "gemma4_moe", "qwen3_5_moe", "deepseek_v3"};
// As a test's name.
inline std::string real_model_name(const testing::TestParamInfo<const char*>& variant) {
  std::string name = variant.param;
  for (char& letter : name) letter = letter == ' ' ? '_' : letter;
  return name;
}

// A device with its threads.
struct RealDevice {
  using Open = std::function<std::unique_ptr<Device>(ThreadPool&)>;
  RealDevice(const std::string& name, uint32_t threads) : pool(threads) {
    device = name == "reference" ? make_reference_device() : make_cpu_device({.pool = &pool});
  }
  RealDevice(const Open& open, uint32_t threads) : pool(threads), device(open(pool)) {}
  ThreadPool pool;
  std::unique_ptr<Device> device;
};

struct RealEngine {
  RealEngine(const std::string& model, const std::string& device_name, EngineOptions options, uint32_t threads = 1)
      : RealEngine(real_model(model), device_name, std::move(options), threads) {}
  // `device`: its name, or what opens it.
  template <class Named>
  RealEngine(const Model& model, const Named& device, EngineOptions options, uint32_t threads = 1)
      : machine(device, threads) {
    if (options.context == 0) options.context = 512;
    engine = unwrap(Engine::create(model, *machine.device, budget, options));
  }

  RequestId submit(const Request& request) { return unwrap(engine->submit(request)); }
  void run() { run_until_idle(*engine, Waiting::yes); }
  Progress collect(RequestId id) { return unwrap(engine->collect(id)); }
  Progress answer(const Request& request) {
    const RequestId id = submit(request);
    run();
    return collect(id);
  }

  RealDevice machine;
  Budget budget;
  std::unique_ptr<Engine> engine;
};

// All that an answer is: tokens with their probabilities and best logits, and the logits asked for.
inline bool same_bits(const Progress& a, const Progress& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0);
  };
  return a.finish == b.finish && same(a.tokens, b.tokens) && same(a.logits, b.logits);
}

}  // namespace sluice
