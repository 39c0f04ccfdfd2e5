// The items of OpenAI's Responses API as chat templates take them, and its tools.
//
// A message is one item, and so are a thought, a call and its output. Templates want a thought, the text behind it and
// the calls behind that in one message of the assistant, so neighbouring items are joined in this order.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "serve/answer_request.h"
#include "serve/refusal.h"

namespace sluice {

// `input`: a string, or the list of the request. What has no effect is named in the request's `ignored`: items of tools
// that run on OpenAI's servers, encrypted thoughts, members of messages. What users show goes to its `media`.
Outcome<Json> response_messages(const Json& input, AnswerRequest& request);
// `tools` in the form of chat completions. Tools of other types than function are left out and named in `ignored`.
Outcome<Json> response_tools(const Json& tools, std::vector<std::string>& ignored);

}  // namespace sluice
