// The chat template for Qwen files that come without one. Own text, the conventions of the published templates: turns
// <|im_start|>role\n...<|im_end|>\n, thoughts between <think> and </think> and kept only after the last question, tools
// as lines of JSON, calls as <function=name> with a <parameter=name> each, responses in a user's turn.
#pragma once

#include <string>

namespace sluice {

// `thinks`: the model has tokens for thoughts; those before Qwen3 have not, and their turns hold answers only.
std::string qwen3_5_chat_template(bool thinks);

}  // namespace sluice
