// Sampling settings as the APIs' requests name them.
#pragma once

#include "chat/turn.h"
#include "serve/answer_request.h"
#include "serve/fields.h"
#include "serve/served_model.h"

namespace sluice {

// What a request of the model begins with: the model's own sampling, and the stop strings of its store.
TurnSettings first_settings(const ServedModel& model);

// temperature, top_p, presence_penalty, frequency_penalty, seed, logit_bias and stop of OpenAI's API; also top_k, min_p
// and repeat_penalty or repetition_penalty, which other servers have added to it.
// Refuses what else they have added: min_tokens, stop_token_ids, ignore_eos and bad_words.
Checked read_openai_sampling(Fields& fields, const ServedModel& model, TurnSettings& settings);

// priority, vLLM's addition to OpenAI's API.
Checked take_priority(Fields& fields, AnswerRequest& request);

// logprobs and top_logprobs, as OpenAI's chats and Ollama have them.
Checked take_log_probs(Fields& fields, TurnSettings& settings);

// Sets `into` if the field is there.
Checked take_number(Fields& fields, std::string_view name, double least, double most, float& into);
Checked take_stops(Fields& fields, std::string_view name, TurnSettings& settings);

}  // namespace sluice
