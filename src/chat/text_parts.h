// What turns a model's ids into conversations: tokenizer, chat template, special tokens, the ids that end an answer -
// joined here, because text/ knows no checkpoint and a checkpoint knows no text.
//
// The chat template is the user's file, else chat_template.jinja, else the one in tokenizer_config.json or the GGUF
// keys, else the built-in one for the vocabulary's turn markers, else there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/dialects/dialect.h"
#include "text/tokenizer.h"

namespace sluice {

struct ChatSource {
  std::string name;  // for errors and for people: "chat_template.jinja", "built-in template of gemma4"
  std::string text;
};

struct TextParts {
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat = {};
  std::string chat_name = {};            // of ChatSource; empty without a template
  const ChatDialect* dialect = nullptr;  // of thinking; never null
  // "bos_token" and the like with their text, as ChatInput takes them.
  std::vector<std::pair<std::string, std::string>> special_tokens = {};
  // Ids that end an answer: the tokenizer's, and those of generation_config.json or config.json.
  std::vector<int32_t> ends = {};
};

struct TextPartsOptions {
  std::string chat_template_path;  // the user's; empty: the model's own
  bool has_tools = false;          // of several templates the one for tools
};

Result<TextParts> open_text(const Model& model, const TextPartsOptions& options = {});

// The parts of it. The vocabulary comes from tokenizer.json or tokenizer.ggml.*.
Result<Vocabulary> read_vocabulary(const Checkpoint& checkpoint);
// Whether the vocabulary is of a kind that can be read, without reading it: a list of models has no time for more.
Status check_vocabulary(const Checkpoint& checkpoint);
Result<std::optional<ChatSource>> stored_chat_template(const Checkpoint& checkpoint, bool has_tools);

}  // namespace sluice
