// The reply of /v1/messages, whole or as Anthropic's stream of named events.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/answer_writer.h"

namespace sluice {

// `stops`: the stop strings of the request, of which the reply names one.
std::unique_ptr<AnswerWriter> make_message_writer(std::vector<std::string> stops);

}  // namespace sluice
