#include "text/chat_template.h"

#include <algorithm>

namespace sluice {

namespace {

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  localtime_r(&now, &out);
  return out;
}

// The switch for thinking has two names: DeepSeek's own templates read the first, others the second. Setting one sets
// both.
constexpr std::string_view kThinkingNames[] = {"thinking", "enable_thinking"};

void add_thinking(Json::Object& variables) {
  const auto find = [&](std::string_view name) {
    return std::find_if(variables.begin(), variables.end(),
                        [&](const auto& variable) { return variable.first == name; });
  };
  const auto first = find(kThinkingNames[0]);
  const auto second = find(kThinkingNames[1]);
  const auto end = variables.end();
  if ((first == end) == (second == end)) return;
  Json value = first == end ? second->second : first->second;
  variables.emplace_back(std::string(kThinkingNames[first == end ? 0 : 1]), std::move(value));
}

// The variables of the template. A later variable replaces an earlier one with the same name.
Result<jinja::Value> context_of(const ChatInput& input) {
  Json::Object variables;
  const Json none;
  for (const auto& [name, text] : input.special_tokens) variables.emplace_back(name, text);
  if (input.extra.is_object()) {
    const Json::Object& extra = input.extra.as_object();
    variables.insert(variables.end(), extra.begin(), extra.end());
  }
  add_thinking(variables);
  variables.emplace_back("messages", input.messages);
  variables.emplace_back("tools", input.tools);
  variables.emplace_back("documents", none);
  variables.emplace_back("add_generation_prompt", input.add_generation_prompt);
  return jinja::to_value(Json(std::move(variables)));
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view text, std::string_view name) {
  TRY(jinja::Template parsed, jinja::Template::parse(text, name));
  return ChatTemplate(std::string(text), std::move(parsed));
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  if (!input.messages.is_array())
    return error(ErrorKind::invalid, "chat: the messages are no array: want an array of objects with role and content");
  TRY(const jinja::Value context, context_of(input));
  return parsed_.render(context, input.now ? *input.now : local_time());
}

Result<std::vector<NamedTemplate>> named_templates(const Json& field, std::string_view where) {
  if (field.is_string()) return std::vector<NamedTemplate>{{"default", field.as_string()}};
  const Error wrong =
      error(ErrorKind::corrupt, where, ": chat_template is no template: want a string or a list of {name, template}");
  if (!field.is_array()) return wrong;
  std::vector<NamedTemplate> out;
  for (const Json& entry : field.as_array()) {
    const Json* name = entry.find("name");
    const Json* text = entry.find("template");
    if (name == nullptr || text == nullptr || !name->is_string() || !text->is_string()) return wrong;
    out.push_back({name->as_string(), text->as_string()});
  }
  return out;
}

const NamedTemplate* choose_template(std::span<const NamedTemplate> templates, bool has_tools) {
  const auto find = [&](std::string_view name) -> const NamedTemplate* {
    const auto found = std::find_if(templates.begin(), templates.end(),
                                    [&](const NamedTemplate& entry) { return entry.name == name; });
    return found == templates.end() ? nullptr : &*found;
  };
  const NamedTemplate* for_tools = has_tools ? find("tool_use") : nullptr;
  if (for_tools != nullptr) return for_tools;
  if (const NamedTemplate* usual = find("default")) return usual;
  return templates.size() == 1 ? templates.data() : nullptr;
}

}  // namespace sluice
