// The form that a request asks of its answer: structured output, as each API names it. A form that cannot be honoured
// is refused; no answer is ever given without the form that was asked for. settle_grammar() (tool_fields.h) compiles
// it.
#pragma once

#include "base/json.h"
#include "serve/answer_request.h"
#include "serve/fields.h"

namespace sluice {

// response_format of OpenAI's API; grammar and json_schema of llama.cpp's server; structured_outputs and guided_* of
// vLLM's.
Checked read_openai_form(Fields& fields, AnswerRequest& request);
// text.format of OpenAI's Responses API: as response_format, but without the object around the schema.
Checked read_response_form(Fields& text, AnswerRequest& request);
// output_config.format of Anthropic's API.
Checked read_anthropic_form(Fields& output_config, AnswerRequest& request);
// format of Ollama's API: "json" or a schema.
Checked read_ollama_form(Fields& fields, AnswerRequest& request);

}  // namespace sluice
