// Log-probabilities in the shapes of OpenAI's API, one of which is Ollama's, too.
#pragma once

#include <cstddef>
#include <span>

#include "base/json.h"
#include "chat/turn.h"

namespace sluice {

// A list of tokens, each with `top_logprobs`. `has_bytes`: also with their bytes, which tell parts of characters.
Json token_log_probs(std::span<const TokenLogProb> tokens, bool has_bytes = true);
// The `logprobs` of a choice of a chat.
Json chat_log_probs(std::span<const TokenLogProb> tokens);
// That of a completion. `offset`: where the text of the first token begins, in bytes.
Json completion_log_probs(std::span<const TokenLogProb> tokens, size_t offset);

}  // namespace sluice
