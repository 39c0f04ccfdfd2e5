#include "serve/openai/thinking.h"

#include <algorithm>

namespace sluice {

Checked read_effort(Fields& fields, std::string_view name, const ServedModel& model, AnswerRequest& request) {
  TRY(const std::optional<std::string> effort, fields.text(name));
  if (!effort) return Fine{};
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  if (std::ranges::find(kEfforts, *effort) == std::end(kEfforts))
    return fields.wrong(name, *effort, "none, minimal, low, medium, high, xhigh or max");
  if (!model.thinks()) request.ignored.push_back(fields.path(name));
  request.variables.add("enable_thinking", *effort != "none");
  if (*effort != "none") request.variables.add("reasoning_effort", *effort);
  return Fine{};
}

Checked read_thought_budget(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  for (const char* name : {"reasoning_budget_tokens", "thinking_budget_tokens", "thinking_token_budget"}) {
    TRY(const std::optional<int64_t> tokens, fields.integer(name, -1, kMostThought));
    if (!tokens) continue;
    if (!model.thinks())
      request.ignored.push_back(fields.path(name));
    else if (*tokens >= 0)
      request.settings.thought_budget = static_cast<uint32_t>(*tokens);
  }
  return Fine{};
}

Checked read_template_variables(Fields& fields, AnswerRequest& request) {
  TRY(const Json* variables, fields.object("chat_template_kwargs"));
  if (variables == nullptr) return Fine{};
  for (const auto& [name, value] : variables->as_object()) {
    if (name == "tools" || name == "messages" || request.variables.find(name) != nullptr)
      return refuse("chat_template_kwargs", "chat_template_kwargs names ", printable(name),
                    ": want another variable than those that the request has");
    request.variables.add(name, value);
  }
  return Fine{};
}

}  // namespace sluice
