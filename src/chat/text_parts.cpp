#include "chat/text_parts.h"

#include <algorithm>
#include <string_view>

#include "base/files/file.h"
#include "base/limits.h"
#include "text/dialects/built_in.h"
#include "text/vocabulary.h"

namespace sluice {
namespace {

// Keys of one GGUF file, some of which may be missing; the first that has a wrong type is kept as an error.
class VocabularyKeys {
 public:
  explicit VocabularyKeys(const GgufMetadata& metadata) : metadata_(metadata) {}

  template <class T>
  void list(const char* name, std::vector<T>& into) {
    if (metadata_.find(name) == nullptr) return;
    Result<const std::vector<T>*> found = metadata_.get_array<T>(name);
    found ? void(into = **found) : keep(std::move(found).error());
  }
  void text(const char* name, std::string& into) {
    if (metadata_.find(name) == nullptr) return;
    Result<std::string> found = metadata_.get_string(name);
    found ? void(into = *std::move(found)) : keep(std::move(found).error());
  }
  void flag(const char* name, std::optional<bool>& into) {
    if (metadata_.find(name) == nullptr) return;
    const Result<bool> found = metadata_.get_bool(name);
    found ? void(into = *found) : keep(found.error());
  }
  void id(const char* name, std::optional<int64_t>& into) {
    if (metadata_.find(name) == nullptr) return;
    const Result<uint32_t> found = metadata_.get_u32(name);
    found ? void(into = *found) : keep(found.error());
  }
  Status status() const { return problem_ ? Status(*problem_) : Status(); }

 private:
  void keep(Error problem) {
    if (!problem_) problem_ = std::move(problem);
  }

  const GgufMetadata& metadata_;
  std::optional<Error> problem_;
};

Result<Vocabulary> read_gguf_vocabulary(const GgufMetadata& metadata) {
  GgufVocabulary stored;
  VocabularyKeys keys(metadata);
  keys.text("tokenizer.ggml.model", stored.model);
  keys.text("tokenizer.ggml.pre", stored.pre);
  keys.list("tokenizer.ggml.tokens", stored.tokens);
  keys.list("tokenizer.ggml.token_type", stored.token_type);
  keys.list("tokenizer.ggml.scores", stored.scores);
  keys.list("tokenizer.ggml.merges", stored.merges);
  keys.id("tokenizer.ggml.bos_token_id", stored.bos_token_id);
  keys.id("tokenizer.ggml.eos_token_id", stored.eos_token_id);
  keys.id("tokenizer.ggml.unknown_token_id", stored.unknown_token_id);
  keys.id("tokenizer.ggml.padding_token_id", stored.padding_token_id);
  keys.id("tokenizer.ggml.mask_token_id", stored.mask_token_id);
  keys.id("tokenizer.ggml.eot_token_id", stored.eot_token_id);
  keys.id("tokenizer.ggml.eom_token_id", stored.eom_token_id);
  keys.id("tokenizer.ggml.fim_pad_token_id", stored.fim_pad_token_id);
  keys.id("tokenizer.ggml.fim_rep_token_id", stored.fim_rep_token_id);
  keys.id("tokenizer.ggml.fim_sep_token_id", stored.fim_sep_token_id);
  keys.flag("tokenizer.ggml.add_bos_token", stored.add_bos_token);
  keys.flag("tokenizer.ggml.add_eos_token", stored.add_eos_token);
  keys.flag("tokenizer.ggml.add_space_prefix", stored.add_space_prefix);
  keys.flag("tokenizer.sluice.nfc", stored.nfc);
  TRY_STATUS(keys.status());
  return vocabulary_from_gguf(std::move(stored));
}

// The first template that fits, of one or several as tokenizer_config.json keeps them.
Result<std::optional<ChatSource>> template_of_config(const Json& config, bool has_tools) {
  const Json* field = config.find("chat_template");
  if (field == nullptr || field->is_null()) return std::optional<ChatSource>();
  TRY(const std::vector<NamedTemplate> templates, named_templates(*field, "tokenizer_config.json"));
  const NamedTemplate* chosen = choose_template(templates, has_tools);
  if (chosen == nullptr) return std::optional<ChatSource>();
  return std::optional<ChatSource>({cat("tokenizer_config.json: template ", chosen->name), chosen->text});
}

std::optional<ChatSource> built_in_source(const Model& model, const Tokenizer& tokenizer) {
  const bool per_layer_embeddings = model.weights().bound("per_layer_embed") != nullptr;
  std::optional<BuiltInTemplate> found = built_in_template(tokenizer, per_layer_embeddings);
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

using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

// Members like "bos_token": "<bos>", or {"content": "<bos>"}, as transformers hands them to templates.
SpecialTokens special_tokens_of_config(const Json& config) {
  SpecialTokens tokens;
  if (!config.is_object()) return tokens;
  for (const auto& [name, value] : config.as_object()) {
    if (!ends_with(name, "_token")) continue;
    const Json* content = value.is_string() ? &value : value.find("content");
    if (content != nullptr && content->is_string()) tokens.emplace_back(name, content->as_string());
  }
  return tokens;
}

void add_special_tokens(const Vocabulary& vocabulary, SpecialTokens& tokens) {
  const auto add = [&](const char* name, const std::optional<int32_t>& id) {
    const auto has_name = [&](const auto& token) { return token.first == name; };
    if (!id || std::any_of(tokens.begin(), tokens.end(), has_name)) return;
    tokens.emplace_back(name, vocabulary.tokens[static_cast<size_t>(*id)].text);
  };
  add("bos_token", vocabulary.bos);
  add("eos_token", vocabulary.eos);
  add("unk_token", vocabulary.unk);
  add("pad_token", vocabulary.pad);
  add("mask_token", vocabulary.mask);
}

Error no_tokenizer(const Checkpoint& checkpoint) {
  return error(ErrorKind::not_found, checkpoint.path(), ": no tokenizer.json: want the model's tokenizer beside it");
}

}  // namespace

Result<Vocabulary> read_vocabulary(const Checkpoint& checkpoint) {
  if (checkpoint.dialect() == Dialect::gguf) return read_gguf_vocabulary(checkpoint.metadata());
  const Json* tokenizer = checkpoint.document("tokenizer.json");
  if (tokenizer != nullptr)
    return vocabulary_from_huggingface(*tokenizer, checkpoint.document("tokenizer_config.json"));
  return no_tokenizer(checkpoint);
}

Status check_vocabulary(const Checkpoint& checkpoint) {
  if (checkpoint.dialect() != Dialect::gguf)
    return checkpoint.document("tokenizer.json") != nullptr ? Status() : no_tokenizer(checkpoint);
  GgufVocabulary stored;
  VocabularyKeys keys(checkpoint.metadata());
  keys.text("tokenizer.ggml.model", stored.model);
  keys.text("tokenizer.ggml.pre", stored.pre);
  keys.list("tokenizer.ggml.merges", stored.merges);
  TRY_STATUS(keys.status());
  return check_gguf_kind(stored);
}

Result<std::optional<ChatSource>> stored_chat_template(const Checkpoint& checkpoint, bool has_tools) {
  if (const std::string* file = checkpoint.text_file("chat_template.jinja"))
    return std::optional<ChatSource>({"chat_template.jinja", *file});
  if (const Json* config = checkpoint.document("tokenizer_config.json")) return template_of_config(*config, has_tools);
  if (checkpoint.key("tokenizer.chat_template") == nullptr) return std::optional<ChatSource>();
  TRY(std::string text, checkpoint.metadata().get_string("tokenizer.chat_template"));
  return std::optional<ChatSource>({"tokenizer.chat_template", std::move(text)});
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
  if (const Json* config = checkpoint.document("tokenizer_config.json"))
    parts.special_tokens = special_tokens_of_config(*config);
  add_special_tokens(parts.tokenizer.vocabulary(), parts.special_tokens);
  parts.ends = parts.tokenizer.ends();
  TRY(const std::optional<ChatSource> source, choose_chat_template(model, parts.tokenizer, options));
  parts.dialect = &detect_dialect(source ? std::string_view(source->text) : std::string_view(),
                                  [&](std::string_view text) { return parts.tokenizer.find(text).has_value(); });
  if (!source) return parts;
  TRY(parts.chat, ChatTemplate::parse(source->text, source->name));
  parts.chat_name = source->name;
  return parts;
}

}  // namespace sluice
