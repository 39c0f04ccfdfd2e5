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

Json openai_error(const Refusal& refusal);
Json openai_model(const ModelCard& model);
Json openai_models(Json::Array models);  // of openai_model()
Json openai_usage(const Usage& usage);

}  // namespace sluice
