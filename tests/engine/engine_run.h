// An engine over the fake device, and short ways to use it in tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_impl.h"
#include "tests/engine/fake_device.h"
#include "tests/engine/run_until_idle.h"
#include "tests/unwrap.h"

namespace sluice {

struct FakeEngine {
  explicit FakeEngine(const EngineOptions& options = {}, const fake::Script& given = {}, uint32_t model_context = 1024)
      : FakeEngine(options, given, fake::model(model_context, given.slots)) {}
  FakeEngine(const EngineOptions& options, fake::Script given, TextModel model)
      : script(std::move(given)),
        waiting(options.states == nullptr ? Waiting::no : Waiting::yes),
        device(fake::make_device(script)) {
    engine = unwrap(create_engine(std::move(model), *device, budget, options));
  }

  RequestId submit(Request request) { return unwrap(engine->submit(std::move(request))); }
  void run() { run_until_idle(*engine, waiting); }
  Progress collect(RequestId id) { return unwrap(engine->collect(id)); }
  Progress answer(Request request) {
    const RequestId id = submit(std::move(request));
    run();
    return collect(id);
  }
  // Pages that somebody holds after every snapshot is forgotten.
  uint32_t held_pages() {
    while (engine->cache().evict()) {
    }
    uint32_t held = 0;
    for (uint32_t g = 0; g < engine->cache().groups(); ++g)
      held += engine->cache().pool(g).size() - engine->cache().pool(g).free();
    return held;
  }

  fake::Script script;
  Waiting waiting;  // for states that are read by another thread
  Budget budget;
  std::unique_ptr<Device> device;
  std::unique_ptr<EngineImpl> engine;
};

// Tokens below fake::kPoison, other ones for other seeds.
inline std::vector<int32_t> prompt_of(size_t tokens, int32_t seed) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < tokens; ++i)
    prompt.push_back(static_cast<int32_t>((i * i + 3 * i + static_cast<size_t>(seed) * 17) % 49));
  return prompt;
}

inline History history_of(const std::vector<int32_t>& tokens) {
  History history;
  for (const int32_t token : tokens) history.push_back({token, TokenClass::prompt});
  return history;
}

inline Request greedy(std::vector<int32_t> prompt, uint32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

// Appends the request and what the oracle answers.
inline std::vector<int32_t> oracle_answer(History& history, const Request& request, bool any_class = false,
                                          bool slots = false, bool repetitive = false) {
  fake::Oracle oracle(any_class, slots, repetitive);
  for (size_t i = 0; i < history.size(); ++i) {
    size_t end = i;
    while (history[i].media.shape.sees_ahead != 0 && is_inside_media(history, end + 1)) ++end;
    oracle.push(history[i], static_cast<uint32_t>(end - i));
  }
  for (const int32_t token : request.prompt) oracle.push({token, TokenClass::prompt});
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < request.max_tokens; ++i) {
    tokens.push_back(oracle.next(request.sampling, request.choice));
    oracle.push({tokens.back(), TokenClass::decode});
  }
  history = oracle.history();
  return tokens;
}

inline std::vector<int32_t> tokens_of(const Progress& progress) {
  std::vector<int32_t> tokens;
  for (const SampleResult& result : progress.tokens) tokens.push_back(result.token);
  return tokens;
}

}  // namespace sluice
