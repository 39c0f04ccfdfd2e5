#include "tests/engine/draft/first_guesses.h"

#include "engine/draft/drafts.h"
#include "engine/engine_impl.h"
#include "tests/unwrap.h"

namespace sluice::tests {

FirstGuesses first_guesses(Engine& engine, Request asked, size_t count) {
  const auto& drafts = static_cast<const Drafts&>(static_cast<const EngineImpl&>(engine).continuation());
  asked.max_tokens = 2 + static_cast<uint32_t>(count) * 2;
  asked.sampling.temperature = 0;
  asked.keep_sequence = true;
  const size_t known = asked.prompt.size() + 1;
  const RequestId id = unwrap(engine.submit(std::move(asked)));
  FirstGuesses found;
  bool answers = false;
  while (found.guesses.size() < count && engine.step() != StepState::idle) {
    const Progress progress = unwrap(engine.collect(id));
    if (!answers && !progress.tokens.empty()) {
      answers = true;
      found.token = progress.tokens[0].token;
      found.reused_tokens = progress.reused_tokens;
    }
    if (answers) found.guesses = drafts.head()->draft(progress.sequence, known);
  }
  return found;
}

}  // namespace sluice::tests
