// What a draft head guesses behind a prompt.
#pragma once

#include <vector>

#include "engine/engine.h"

namespace sluice::tests {

struct FirstGuesses {
  int32_t token = 0;  // that the model itself put behind the prompt
  uint32_t reused_tokens = 0;
  std::vector<int32_t> guesses = {};  // behind that token
};

// Of an engine that drafts by a head; steps it until the head has made so many guesses.
FirstGuesses first_guesses(Engine& engine, Request asked, size_t count);

}  // namespace sluice::tests
