// The chat template for DeepSeek-V3 and R1 files without one. Written for Sluice after the published conventions: all
// system messages first, then <｜User｜>question<｜Assistant｜>answer<｜end▁of▁sentence｜>. Thoughts of earlier answers
// are left out. Calls and outputs stand between their own markers, and the same answer goes on after them.
#pragma once

#include <string>

namespace sluice {

std::string deepseek_v3_chat_template();

}  // namespace sluice
