// How much a request of OpenAI's APIs lets the model think, and further variables of the chat template.
#pragma once

#include <string_view>

#include "serve/answer_request.h"
#include "serve/fields.h"
#include "serve/refusal.h"
#include "serve/served_model.h"

namespace sluice {

// An effort: "none" asks the template for no thinking, every other one for thinking. `name` is its field.
Checked read_effort(Fields& fields, std::string_view name, const ServedModel& model, AnswerRequest& request);
// The most tokens of a thought, in the fields of llama.cpp's server and of vLLM; -1: any number.
Checked read_thought_budget(Fields& fields, const ServedModel& model, AnswerRequest& request);
// chat_template_kwargs, which is not OpenAI's. Call it last: it may not name what the request has set.
Checked read_template_variables(Fields& fields, AnswerRequest& request);

}  // namespace sluice
