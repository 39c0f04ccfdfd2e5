// Anthropic's API: POST /v1/messages and /v1/messages/count_tokens. docs/server.md lists every field.
#pragma once

#include <string>

#include "base/json.h"
#include "serve/answer_request.h"
#include "serve/refusal.h"
#include "serve/served_model.h"

namespace sluice {

Outcome<AnswerRequest> read_anthropic_messages(const Json& body, const ServedModel& model);
// The same request without max_tokens.
Outcome<AnswerRequest> read_anthropic_count(const Json& body, const ServedModel& model);

int anthropic_status(const Refusal& refusal);  // 529 in place of 503
Json anthropic_error(const Refusal& refusal, const std::string& request_id);
Json anthropic_model(const ModelCard& model);
Json anthropic_models(Json::Array models);  // at least one, of anthropic_model()

}  // namespace sluice
