// The chat template for Qwen files without one. Written for Sluice after the published conventions: turns
// <|im_start|>role\n...<|im_end|>\n; thoughts between <think> and </think>, kept only after the last question; tools as
// lines of JSON; calls as <function=name> with a <parameter=name> for each value; responses in a user's turn.
#pragma once

#include <string>

namespace sluice {

// `thinks`: the model has tokens for thoughts. Models before Qwen3 have none, and their turns hold answers only.
std::string qwen3_5_chat_template(bool thinks);

}  // namespace sluice
