// The replies of /api/chat and /api/generate: a line of JSON for each piece, or one object.
#pragma once

#include <memory>

#include "serve/answer_writer.h"

namespace sluice {

enum class OllamaForm : uint8_t { chat, generate };
std::unique_ptr<AnswerWriter> make_ollama_writer(OllamaForm form);

// "2026-11-25T00:00:00.123456789Z"
std::string rfc3339(int64_t seconds, int64_t nanoseconds);

}  // namespace sluice
