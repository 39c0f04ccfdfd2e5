#include "serve/prefill.h"

#include <algorithm>

namespace sluice {
namespace {

void forgo_thought(AnswerRequest& request, std::string_view field) {
  if (request.variables.is_null()) request.variables = Json::Object{};
  Json::Object& variables = request.variables.as_object();
  const auto wanted =
      std::ranges::find(variables, std::string_view("enable_thinking"), [](const auto& one) { return one.first; });
  if (wanted == variables.end()) return request.variables.add("enable_thinking", false);
  const bool was_asked_for = wanted->second.is_bool() && wanted->second.as_bool();
  wanted->second = false;
  if (!was_asked_for) return;
  request.settings.thought_budget.reset();
  if (std::ranges::find(request.ignored, field) == request.ignored.end()) request.ignored.emplace_back(field);
}

}  // namespace

Checked take_prefill(AnswerRequest& request, std::string_view thinking_field) {
  if (!request.messages.is_array() || request.messages.as_array().empty()) return Fine{};
  const Json& last = request.messages.as_array().back();
  if (last.find("role")->as_string() != "assistant") return Fine{};
  if (last.find("tool_calls") != nullptr)
    return refuse("messages", "messages ends with calls of tools: want their results behind them");
  const Json* thought = last.find("reasoning_content");
  if (thought != nullptr && !thought->as_string().empty())
    return refuse("messages", "messages ends with a thought of the assistant: want its text alone to go on from");
  request.prefill = last.find("content")->as_string();
  request.messages.as_array().pop_back();
  if (request.prefill.empty()) return Fine{};
  if (request.form)
    return refuse(request.form->param, request.form->param,
                  " beside a begun answer cannot be honoured: want one of them");
  forgo_thought(request, thinking_field);
  return Fine{};
}

}  // namespace sluice
