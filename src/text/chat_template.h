// Chat templates render a conversation as the text that a model was trained on, like transformers' apply_chat_template.
//
//   TRY(const ChatTemplate chat, ChatTemplate::parse(text, "chat_template.jinja"));
//   TRY(const std::string prompt, chat.render({.messages = messages, .special_tokens = {{"bos_token", "<bos>"}}}));
//
// The rendered text contains its special tokens, <bos> included, so encode it without adding any. A template is
// immutable, so threads may share it. The language is Jinja (jinja/template.h). A template that fails or runs too long
// gives one sentence with its line.
#pragma once

#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/template.h"

namespace sluice {

struct ChatInput {
  Json messages;  // array of objects: "role", "content" (a string, or parts with "type"), "tool_calls", ...
  Json tools;     // array of function schemas, or null
  bool add_generation_prompt = true;
  // "bos_token", "eos_token", ... with their text; those the tokenizer has.
  std::vector<std::pair<std::string, std::string>> special_tokens = {};
  // An object with further variables, or null: {"enable_thinking": false}. "thinking" gets the same value.
  Json extra = {};
  std::optional<std::tm> now = std::nullopt;  // what strftime_now shows; the local time when not set
};

class ChatTemplate {
 public:
  // Errors begin with `name` and the line.
  static Result<ChatTemplate> parse(std::string_view text, std::string_view name);
  Result<std::string> render(const ChatInput& input) const;
  const std::string& text() const { return text_; }

 private:
  ChatTemplate(std::string text, jinja::Template parsed) : text_(std::move(text)), parsed_(std::move(parsed)) {}

  std::string text_;
  jinja::Template parsed_;
};

struct NamedTemplate {
  std::string name;
  std::string text;
};

// The field "chat_template" of tokenizer_config.json: a string (then named "default"), or a list of {"name",
// "template"}.
Result<std::vector<NamedTemplate>> named_templates(const Json& field, std::string_view where);
// "tool_use" when there are tools and a template for them, else "default", else the only template. nullptr if none
// fits.
const NamedTemplate* choose_template(std::span<const NamedTemplate> templates, bool has_tools);

}  // namespace sluice
