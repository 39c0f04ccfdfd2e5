// Carries a model that was accepted through all that follows: its program, an engine within a small budget, a few
// tokens. Any step may refuse with one sentence; none may fault.
#pragma once

#include "base/budget.h"
#include "base/check.h"
#include "device/reference/reference.h"
#include "engine/engine.h"
#include "model/model.h"

namespace sluice::fuzz {

inline constexpr uint64_t kBudget = 16u << 20;
inline constexpr uint64_t kParameters = 20000;  // of models that are run, so that a run is short

inline void check_sentence(const Error& refused) {
  CHECK(!refused.text.empty() && refused.text.find('\n') == std::string::npos);
}

inline void run(Engine& engine) {
  Request request;
  request.prompt = {0, 0, 0};
  request.max_tokens = 2;
  const auto id = engine.submit(std::move(request));
  if (!id) return check_sentence(id.error());
  while (engine.step() != StepState::idle) {
  }
  const auto progress = engine.collect(*id);
  CHECK(progress.ok() && progress->tokens.size() <= 2);
}

inline void use_model(const Model& model) {
  const auto program = model.record_text();
  if (!program) return check_sentence(program.error());
  Budget budget;
  budget.set_limit(Domain::host, kBudget);
  const auto device = make_reference_device();
  EngineOptions options;
  options.arithmetic = Arithmetic::exact;
  options.prompt_chunk = 64;
  const auto engine = Engine::create(model, *device, budget, options);
  if (!engine) {
    CHECK(!engine.error().text.empty());  // a budget's sentence is followed by its table
    return;
  }
  if (model.facts().parameters <= kParameters) run(**engine);
}

}  // namespace sluice::fuzz
