#include "chat/text_parts.h"

#include <string_view>

#include "base/files/file.h"
#include "base/limits.h"
#include "text/dialects/built_in.h"
#include "text/vocabulary.h"

namespace sluice {
namespace {

// A checkpoint as text/ asks it for its tokenizer.
class CheckpointFiles final : public TokenizerFiles {
 public:
  explicit CheckpointFiles(const Checkpoint& checkpoint) : checkpoint_(checkpoint), keys_(checkpoint.metadata()) {}

  const std::string& where() const override { return checkpoint_.path(); }
  const Json* document(std::string_view file_name) const override { return checkpoint_.document(file_name); }
  const std::string* text_file(std::string_view file_name) const override { return checkpoint_.text_file(file_name); }
  bool has_keys() const override { return checkpoint_.dialect() == Dialect::gguf; }
  Status key(const char* name, std::optional<std::string>& into) const override {
    return take(name, into, keys_.get_string(name));
  }
  Status key(const char* name, std::optional<bool>& into) const override {
    return take(name, into, keys_.get_bool(name));
  }
  Status key(const char* name, std::optional<int64_t>& into) const override {
    return take(name, into, keys_.get_u32(name));
  }
  Status key(const char* name, std::vector<std::string>& into) const override { return list(name, into); }
  Status key(const char* name, std::vector<int32_t>& into) const override { return list(name, into); }
  Status key(const char* name, std::vector<float>& into) const override { return list(name, into); }

 private:
  template <class T, class Found>
  Status take(const char* name, T& into, Result<Found> found) const {
    if (checkpoint_.key(name) == nullptr) return {};
    if (!found) return std::move(found).error();
    into = *std::move(found);
    return {};
  }
  template <class T>
  Status list(const char* name, std::vector<T>& into) const {
    if (checkpoint_.key(name) == nullptr) return {};
    TRY(const std::vector<T>* found, keys_.get_array<T>(name));
    into = *found;
    return {};
  }

  const Checkpoint& checkpoint_;
  const GgufMetadata& keys_;
};

std::optional<ChatSource> built_in_source(const Model& model, const Tokenizer& tokenizer) {
  const auto has_weight = [&](std::string_view name) { return model.weights().bound(std::string(name)) != nullptr; };
  std::optional<BuiltInTemplate> found = built_in_template(tokenizer, has_weight);
  if (!found) return std::nullopt;
  return ChatSource{cat("built-in template of ", found->family), std::move(found->text)};
}

Result<std::optional<ChatSource>> choose_chat_template(const Model& model, const Tokenizer& tokenizer,
                                                       const TextPartsOptions& options) {
  if (!options.chat_template_path.empty()) {
    TRY(std::string text, read_file(options.chat_template_path, kMaxDocumentBytes));
    return std::optional<ChatSource>({options.chat_template_path, std::move(text)});
  }
  TRY(std::optional<ChatSource> stored, stored_chat_template(model.checkpoint(), options.has_tools));
  return stored ? stored : built_in_source(model, tokenizer);
}

// Tokens that a vocabulary may list as plain text, but that mean something in an answer or a template.
std::vector<std::string_view> template_markers(const TextParts& text) {
  std::vector<std::string_view> markers = {text.dialect->open, text.dialect->close};
  if (const ToolSyntax* syntax = text.tool_syntax) {
    markers.insert(markers.end(), {syntax->open, syntax->close});
    markers.insert(markers.end(), syntax->inner.begin(), syntax->inner.end());
    markers.insert(markers.end(), syntax->outer.begin(), syntax->outer.end());
  }
  return markers;
}

Status guard_text(const Tokenizer& tokenizer, const std::vector<std::string_view>& markers, Json& value) {
  if (value.as_string().find(kGuard) != std::string::npos)
    return error(ErrorKind::invalid, "chat: a message has the character U+FDD0: want text without it");
  value = tokenizer.guard(value.as_string(), kGuard, markers);
  return {};
}

}  // namespace

Result<Vocabulary> read_vocabulary(const Checkpoint& checkpoint) {
  return read_vocabulary(CheckpointFiles(checkpoint));
}

Status check_vocabulary(const Checkpoint& checkpoint) { return check_vocabulary(CheckpointFiles(checkpoint)); }

Result<std::optional<ChatSource>> stored_chat_template(const Checkpoint& checkpoint, bool has_tools) {
  return stored_chat_template(CheckpointFiles(checkpoint), has_tools);
}

Result<TextParts> open_text(const Model& model, const TextPartsOptions& options) {
  const Checkpoint& checkpoint = model.checkpoint();
  TRY(Vocabulary vocabulary, read_vocabulary(checkpoint));
  if (vocabulary.tokens.size() > model.facts().vocabulary) {
    return error(ErrorKind::invalid, checkpoint.path(), ": the tokenizer has ", vocabulary.tokens.size(),
                 " tokens: want at most the model's ", model.facts().vocabulary);
  }
  for (const int32_t id : model.facts().eos_ids) vocabulary.add_end(id);
  TextParts parts{.tokenizer = Tokenizer(std::move(vocabulary))};
  parts.special_tokens = special_tokens_of(CheckpointFiles(checkpoint), parts.tokenizer.vocabulary());
  parts.ends = parts.tokenizer.ends();
  TRY(const std::optional<ChatSource> source, choose_chat_template(model, parts.tokenizer, options));
  const std::string_view template_text = source ? std::string_view(source->text) : std::string_view();
  const auto has_token = [&](std::string_view text) { return parts.tokenizer.find(text).has_value(); };
  parts.dialect = &detect_dialect(template_text, has_token);
  parts.tool_syntax = detect_tool_syntax(template_text, has_token);
  if (parts.tool_syntax != nullptr) parts.call_notation = detect_call_notation(*parts.tool_syntax, template_text);
  if (!source) return parts;
  TRY(parts.chat, ChatTemplate::parse(source->text, source->name));
  parts.chat_name = source->name;
  return parts;
}

Result<Json> guard_messages(const TextParts& text, Json messages) {
  const std::vector<std::string_view> markers = template_markers(text);
  for (Json& message : messages.as_array()) {
    const Json* role = message.find("role");
    const bool is_strange = role != nullptr && role->is_string() && role->as_string() != "assistant";
    if (!message.is_object() || !is_strange) continue;
    for (auto& [name, value] : message.as_object()) {
      if (name != "content") continue;
      if (value.is_string()) TRY_STATUS(guard_text(text.tokenizer, markers, value));
      if (!value.is_array()) continue;
      for (Json& part : value.as_array()) {
        if (!part.is_object()) continue;
        for (auto& [member, piece] : part.as_object())
          if (member == "text" && piece.is_string()) TRY_STATUS(guard_text(text.tokenizer, markers, piece));
      }
    }
  }
  return messages;
}

Result<ChatPrompt> render_chat(const TextParts& text, Json messages, Json variables, std::vector<PreparedMedia> media) {
  if (!text.chat) return error(ErrorKind::not_found, "chat template: none in the model: want plain text");
  ChatInput input;
  input.messages = std::move(messages);
  input.special_tokens = text.special_tokens;
  input.extra = std::move(variables);
  if (const Json* tools = input.extra.find("tools")) input.tools = *tools;
  if (!input.tools.is_null() && !input.tools.is_array())
    return error(ErrorKind::invalid, "chat: the tools are no array: want an array of objects, each with a function");
  TRY(std::string rendered, text.chat->render(input));
  TRY_ASSIGN(rendered, expand_films(std::move(rendered), media, text.tokenizer));
  ChatPrompt prompt{.text = std::move(rendered), .ids = {}, .tools = std::move(input.tools)};
  const Json* thinking = input.extra.find("enable_thinking");
  prompt.asks_for_thought = thinking != nullptr && thinking->is_bool() && thinking->as_bool();
  prompt.ids = text.tokenizer.encode(prompt.text, {.guard = kGuard});
  prompt.text = without_guard(prompt.text, kGuard);
  if (media.empty()) return prompt;
  TRY(PlacedMedia placed, place_media(prompt.ids, media));
  prompt.ids = std::move(placed.ids);
  prompt.media = std::move(media);
  prompt.spans = std::move(placed.spans);
  return prompt;
}

}  // namespace sluice
