// Gemma 4's notation of a call: call:NAME{key:value,...}. Keys are bare. Strings stand between <|"|> tokens; numbers,
// true, false, null, [lists] and {objects} are as in JSON. Source: Gemma 4's chat template.
#pragma once

#include <string_view>

#include "text/dialects/tool_syntax.h"

namespace sluice {

inline constexpr std::string_view kGemma4Quote = "<|\"|>";

// Models also write plain quotes, no quotes at all, and a colon before "call"; those are read too. Depth is bounded.
Result<ToolCall> parse_gemma4_call(std::string_view body, const Json& tools);

}  // namespace sluice
