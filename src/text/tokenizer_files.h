// Reads the tokenizer and the chat template from a model's files: which documents and keys contain them. This code does
// not know checkpoints; the caller passes the files as TokenizerFiles.
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
  virtual const std::string& where() const = 0;                                // begins errors: the model's path
  virtual const Json* document(std::string_view file_name) const = 0;          // null: no such document
  virtual const std::string* text_file(std::string_view file_name) const = 0;  // null: no such file
  // Whether the model is one file with keys and without documents. A missing key leaves `into` as it is; a key of
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
  std::string name;  // to show and for errors: "chat_template.jinja", "built-in template of gemma4"
  std::string text;
};
// The variables "bos_token", "eos_token" ... with the tokens' text, for ChatInput.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

Result<Vocabulary> read_vocabulary(const TokenizerFiles& files);
// Whether the kind of vocabulary is known. The vocabulary is not read, so that listing many models stays fast.
Status check_vocabulary(const TokenizerFiles& files);
// `has_tools`: chooses the template for tools if there are several templates.
Result<std::optional<ChatSource>> stored_chat_template(const TokenizerFiles& files, bool has_tools);
// The special tokens that the files name, then those that `vocabulary` has.
SpecialTokens special_tokens_of(const TokenizerFiles& files, const Vocabulary& vocabulary);

}  // namespace sluice
