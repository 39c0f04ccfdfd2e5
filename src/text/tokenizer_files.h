// What a model's files say of its tokenizer and its chat template: which documents and keys hold them, whoever has read
// those. A checkpoint is not known here; it is handed in as TokenizerFiles.
//
//   Hugging Face  tokenizer.json, tokenizer_config.json, chat_template.jinja
//   GGUF          tokenizer.ggml.*, tokenizer.chat_template
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/vocabulary.h"

namespace sluice {

class TokenizerFiles {
 public:
  virtual ~TokenizerFiles() = default;
  virtual const std::string& where() const = 0;                                // begins sentences: the model's path
  virtual const Json* document(std::string_view file_name) const = 0;          // null: there is none
  virtual const std::string* text_file(std::string_view file_name) const = 0;  // likewise
  // Whether the model is one file of keys, and has no documents. A key that is missing leaves `into` as it is; one of
  // another type is an error.
  virtual bool has_keys() const = 0;
  virtual Status key(const char* name, std::optional<std::string>& into) const = 0;
  virtual Status key(const char* name, std::optional<bool>& into) const = 0;
  virtual Status key(const char* name, std::optional<int64_t>& into) const = 0;
  virtual Status key(const char* name, std::vector<std::string>& into) const = 0;
  virtual Status key(const char* name, std::vector<int32_t>& into) const = 0;
  virtual Status key(const char* name, std::vector<float>& into) const = 0;
};

struct ChatSource {
  std::string name;  // for errors and for people: "chat_template.jinja", "built-in template of gemma4"
  std::string text;
};
// "bos_token" and the like with their text, as ChatInput takes them.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

Result<Vocabulary> read_vocabulary(const TokenizerFiles& files);
// Whether the vocabulary is of a kind that can be read, without reading it: a list of models has no time for more.
Status check_vocabulary(const TokenizerFiles& files);
// `has_tools`: of several templates the one for tools.
Result<std::optional<ChatSource>> stored_chat_template(const TokenizerFiles& files, bool has_tools);
// Those that the files name, then those that `vocabulary` knows.
SpecialTokens special_tokens_of(const TokenizerFiles& files, const Vocabulary& vocabulary);

}  // namespace sluice
