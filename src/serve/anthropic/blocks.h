// Anthropic's messages as chat templates take them.
//
// A user's tool_result blocks become messages of the role tool, an assistant's tool_use blocks become tool_calls, and
// thinking becomes reasoning_content.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "serve/answer_request.h"
#include "serve/fields.h"
#include "serve/refusal.h"

namespace sluice {

// Reads `system` and `messages` into the request's messages.
Checked read_anthropic_dialog(Fields& fields, AnswerRequest& request);
// `tools` in OpenAI's form. Tools of Anthropic's own servers are left out and named in `ignored`.
Outcome<Json> anthropic_tools(const Json& tools, std::vector<std::string>& ignored);

}  // namespace sluice
