// Log-probabilities in the shapes of OpenAI's API.
#pragma once

#include <cstddef>
#include <span>

#include "base/json.h"
#include "chat/turn.h"

namespace sluice {

// The `logprobs` of a choice of a chat.
Json chat_log_probs(std::span<const TokenLogProb> tokens);
// That of a completion. `offset`: where the text of the first token begins, in bytes.
Json completion_log_probs(std::span<const TokenLogProb> tokens, size_t offset);

}  // namespace sluice
