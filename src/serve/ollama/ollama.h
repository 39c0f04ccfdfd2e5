// Ollama's API: POST /api/generate, /api/chat, /api/show; GET /api/tags, /api/ps, /api/version. docs/server.md lists
// every field.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/json.h"
#include "serve/answer_request.h"
#include "serve/refusal.h"
#include "serve/served_model.h"

namespace sluice {

Outcome<AnswerRequest> read_ollama_chat(const Json& body, const ServedModel& model);
Outcome<AnswerRequest> read_ollama_generate(const Json& body, const ServedModel& model);

Json ollama_error(const Refusal& refusal);
// An entry of the lists of /api/tags and of /api/ps. `end`: when the model goes if nobody uses it; none: never.
Json ollama_tag(const ModelCard& model);
Json ollama_running(const ModelCard& model, std::optional<std::chrono::system_clock::time_point> end);
// The model that a request for /api/show names.
Outcome<std::string> ollama_name(const Json& body);
Json ollama_show(const ModelCard& model);

}  // namespace sluice
