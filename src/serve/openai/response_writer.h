// The reply of /v1/responses, whole or as OpenAI's stream of typed events.
#pragma once

#include <memory>

#include "base/json.h"
#include "serve/answer_writer.h"

namespace sluice {

// `repeated`: an object of the members that the reply has from its request, such as instructions and tools.
std::unique_ptr<AnswerWriter> make_response_writer(Json repeated);

}  // namespace sluice
