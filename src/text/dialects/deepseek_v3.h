// The chat template for DeepSeek-V3 and R1 files that come without one. Own text, the conventions of the published
// templates: all system messages first, then <｜User｜>question<｜Assistant｜>answer<｜end▁of▁sentence｜>, thoughts of
// earlier answers left out; calls and outputs between their own markers, after which the same answer goes on.
#pragma once

#include <string>

namespace sluice {

std::string deepseek_v3_chat_template();

}  // namespace sluice
