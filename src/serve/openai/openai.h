// OpenAI's API: POST /v1/chat/completions, /v1/completions and /v1/responses, GET /v1/models. docs/server.md lists
// every field.
#pragma once

#include "base/json.h"
#include "serve/answer_request.h"
#include "serve/refusal.h"
#include "serve/served_model.h"

namespace sluice {

Outcome<AnswerRequest> read_openai_chat(const Json& body, const ServedModel& model);
Outcome<AnswerRequest> read_openai_completion(const Json& body, const ServedModel& model);
Outcome<AnswerRequest> read_openai_response(const Json& body, const ServedModel& model);

// Of a chat's reply, for streams with a last chunk of usage or with log-probabilities.
std::unique_ptr<AnswerWriter> make_chat_writer(bool shows_usage, bool shows_log_probs);

Json openai_error(const Refusal& refusal);
Json openai_model(const ModelCard& model);
Json openai_models(Json::Array models);  // of openai_model()
Json openai_usage(const Usage& usage);

}  // namespace sluice
