// Ollama's API: POST /api/generate, /api/chat, /api/show; GET /api/tags, /api/ps, /api/version. docs/server.md lists
// every field.
#pragma once

#include <string>

#include "base/json.h"
#include "serve/answer_request.h"
#include "serve/refusal.h"
#include "serve/served_model.h"

namespace sluice {

Outcome<AnswerRequest> read_ollama_chat(const Json& body, const ServedModel& model);
Outcome<AnswerRequest> read_ollama_generate(const Json& body, const ServedModel& model);

Json ollama_error(const Refusal& refusal);
Json ollama_tags(const ServedModel& model);
Json ollama_running(const ServedModel& model);
Outcome<Json> ollama_show(const Json& body, const ServedModel& model);

}  // namespace sluice
