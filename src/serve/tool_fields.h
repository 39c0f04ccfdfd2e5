// Tools of a request, and which of them its answer calls: tools and tool_choice of all APIs come to the same here.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "serve/answer_request.h"
#include "serve/fields.h"
#include "serve/refusal.h"
#include "serve/served_model.h"

namespace sluice {

struct ToolChoice {
  enum class Use : uint8_t { none, may, must } use = Use::may;
  std::vector<std::string> only = {};  // names of the tools that may be called; empty: all
};

// tool_choice of OpenAI's APIs: none, auto, required, a named function or allowed_tools. Chat completions keep the
// name within an object of its own, responses do not; both are read.
Outcome<ToolChoice> read_openai_choice(Fields& fields);

// Gives the request its tools. `tools`: OpenAI's list, checked.
Checked take_tools(Json tools, const ToolChoice& choice, const ServedModel& model, AnswerRequest& request);

// Compiles the grammar of the answer, once form and tools are known.
Checked settle_grammar(const ServedModel& model, AnswerRequest& request);

}  // namespace sluice
