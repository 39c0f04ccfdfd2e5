// The options for the form of an answer: structured output.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/args.h"
#include "base/result.h"
#include "chat/text_parts.h"

namespace sluice {

std::vector<OptionSpec> form_options();
// Reads and compiles what the options give, before a model is opened. Fails if they are wrong, or more than one.
Status check_form(const Arguments& arguments);
// What the options give, none without one, and the name of the option.
Result<std::optional<GrammarSource>> form_source(const Arguments& arguments);
std::string form_name(const Arguments& arguments);
// Null without such an option.
Result<std::shared_ptr<const AnswerGrammar>> answer_grammar(const Arguments& arguments, const TextParts& text);

}  // namespace sluice
