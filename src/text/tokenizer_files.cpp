#include "text/tokenizer_files.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "text/chat_template.h"

namespace sluice {
namespace {

// Reads keys one after the other; the first that has a wrong type is kept as an error.
class VocabularyKeys {
 public:
  explicit VocabularyKeys(const TokenizerFiles& files) : files_(files) {}

  template <class T>
  void read(const char* name, T& into) {
    if (status_) status_ = files_.key(name, into);
  }
  void read(const char* name, std::string& into) {
    std::optional<std::string> text;
    read(name, text);
    into = std::move(text).value_or("");
  }
  const Status& status() const { return status_; }

 private:
  const TokenizerFiles& files_;
  Status status_;
};

Result<Vocabulary> read_gguf_vocabulary(const TokenizerFiles& files) {
  GgufVocabulary stored;
  VocabularyKeys keys(files);
  keys.read("tokenizer.ggml.model", stored.model);
  keys.read("tokenizer.ggml.pre", stored.pre);
  keys.read("tokenizer.ggml.tokens", stored.tokens);
  keys.read("tokenizer.ggml.token_type", stored.token_type);
  keys.read("tokenizer.ggml.scores", stored.scores);
  keys.read("tokenizer.ggml.merges", stored.merges);
  keys.read("tokenizer.ggml.bos_token_id", stored.bos_token_id);
  keys.read("tokenizer.ggml.eos_token_id", stored.eos_token_id);
  keys.read("tokenizer.ggml.unknown_token_id", stored.unknown_token_id);
  keys.read("tokenizer.ggml.padding_token_id", stored.padding_token_id);
  keys.read("tokenizer.ggml.mask_token_id", stored.mask_token_id);
  keys.read("tokenizer.ggml.eot_token_id", stored.eot_token_id);
  keys.read("tokenizer.ggml.eom_token_id", stored.eom_token_id);
  keys.read("tokenizer.ggml.fim_pad_token_id", stored.fim_pad_token_id);
  keys.read("tokenizer.ggml.fim_rep_token_id", stored.fim_rep_token_id);
  keys.read("tokenizer.ggml.fim_sep_token_id", stored.fim_sep_token_id);
  keys.read("tokenizer.ggml.add_bos_token", stored.add_bos_token);
  keys.read("tokenizer.ggml.add_eos_token", stored.add_eos_token);
  keys.read("tokenizer.ggml.add_space_prefix", stored.add_space_prefix);
  keys.read("tokenizer.sluice.nfc", stored.nfc);
  TRY_STATUS(keys.status());
  return vocabulary_from_gguf(std::move(stored));
}

// Chooses the template from tokenizer_config.json, which has one or several.
Result<std::optional<ChatSource>> template_of_config(const Json& config, bool has_tools) {
  const Json* field = config.find("chat_template");
  if (field == nullptr || field->is_null()) return std::optional<ChatSource>();
  TRY(const std::vector<NamedTemplate> templates, named_templates(*field, "tokenizer_config.json"));
  const NamedTemplate* chosen = choose_template(templates, has_tools);
  if (chosen == nullptr) return std::optional<ChatSource>();
  return std::optional<ChatSource>({cat("tokenizer_config.json: template ", chosen->name), chosen->text});
}

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

Error no_tokenizer(const TokenizerFiles& files) {
  return error(ErrorKind::not_found, files.where(), ": no tokenizer.json: want the model's tokenizer beside it");
}

}  // namespace

Result<Vocabulary> read_vocabulary(const TokenizerFiles& files) {
  if (files.has_keys()) return read_gguf_vocabulary(files);
  const Json* tokenizer = files.document("tokenizer.json");
  return tokenizer != nullptr ? vocabulary_from_huggingface(*tokenizer, files.document("tokenizer_config.json"))
                              : no_tokenizer(files);
}

Status check_vocabulary(const TokenizerFiles& files) {
  if (!files.has_keys()) return files.document("tokenizer.json") != nullptr ? Status() : no_tokenizer(files);
  GgufVocabulary stored;
  VocabularyKeys keys(files);
  keys.read("tokenizer.ggml.model", stored.model);
  keys.read("tokenizer.ggml.pre", stored.pre);
  keys.read("tokenizer.ggml.merges", stored.merges);
  TRY_STATUS(keys.status());
  return check_gguf_kind(stored);
}

Result<std::optional<ChatSource>> stored_chat_template(const TokenizerFiles& files, bool has_tools) {
  if (const std::string* file = files.text_file("chat_template.jinja"))
    return std::optional<ChatSource>({"chat_template.jinja", *file});
  if (const Json* config = files.document("tokenizer_config.json")) return template_of_config(*config, has_tools);
  std::optional<std::string> text;
  TRY_STATUS(files.key("tokenizer.chat_template", text));
  if (!text) return std::optional<ChatSource>();
  return std::optional<ChatSource>({"tokenizer.chat_template", *std::move(text)});
}

SpecialTokens special_tokens_of(const TokenizerFiles& files, const Vocabulary& vocabulary) {
  SpecialTokens tokens;
  if (const Json* config = files.document("tokenizer_config.json")) tokens = special_tokens_of_config(*config);
  add_special_tokens(vocabulary, tokens);
  return tokens;
}

}  // namespace sluice
