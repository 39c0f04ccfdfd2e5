// The options for tools that the model may call. They are read, checked and enforced as the server does it with the
// fields of OpenAI's API (serve/tool_fields.h).
#pragma once

#include <string>
#include <vector>

#include "app/cli/args.h"
#include "base/json.h"
#include "base/result.h"
#include "chat/conversation.h"
#include "chat/text_parts.h"
#include "model/model.h"

namespace sluice {

std::vector<OptionSpec> tool_options();
// Reads what the options give, before a model is opened.
Status check_tools(const Arguments& arguments);
// Puts tools, and the grammar of the answer that they and the options for its form ask for, into the settings.
Status take_tool_options(const Arguments& arguments, const TextParts& text, const Model& model,
                         ConversationSettings& settings);

}  // namespace sluice
