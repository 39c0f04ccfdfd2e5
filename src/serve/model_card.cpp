#include "serve/model_card.h"

#include <algorithm>

#include "base/text.h"

namespace sluice {

void ModelCard::describe(const Model& model, const TextParts& text) {
  facts = model.facts();
  has_chat = text.chat.has_value();
  chat_template = has_chat ? text.chat->text() : "";
  has_thinking = !text.dialect->open.empty();
  has_tools = text.tool_syntax != nullptr;
  has_vision = model.has(ProgramKind::vision);
  has_audio = model.has(ProgramKind::audio);
}

// Ollama's clients leave out or add ":latest".
bool ModelCard::answers_to(std::string_view name) const {
  constexpr std::string_view kLatest = ":latest";
  const auto plain = [&](std::string_view text) {
    return ends_with(text, kLatest) ? text.substr(0, text.size() - kLatest.size()) : text;
  };
  return std::ranges::any_of(names, [&](const std::string& own) { return plain(own) == plain(name); });
}

}  // namespace sluice
