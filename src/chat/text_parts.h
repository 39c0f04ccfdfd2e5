// The parts that turn a model's ids into conversations: tokenizer, chat template, special tokens and the ids that end
// an answer. They are joined here, because text/ knows no checkpoint and a checkpoint knows no text.
//
// The chat template is the user's file, else the model's own (text/tokenizer_files.h), else the built-in one for the
// vocabulary's turn markers (text/dialects/built_in.h), else there is none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/answer_constraint.h"
#include "chat/media_parts.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/dialects/dialect.h"
#include "text/dialects/tool_syntax.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace sluice {

struct TextParts {
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat = {};
  std::string chat_name = {};               // of ChatSource; empty without a template
  const ChatDialect* dialect = nullptr;     // of thinking; never null
  const ToolSyntax* tool_syntax = nullptr;  // null: the model's files show none
  CallNotation call_notation = {};          // of that syntax
  SpecialTokens special_tokens = {};
  // Ids that end an answer: the tokenizer's, and those that the model's configuration names.
  std::vector<int32_t> ends = {};
  std::shared_ptr<AnswerGrammars> grammars = std::make_shared<AnswerGrammars>();
};

struct TextPartsOptions {
  std::string chat_template_path;  // the user's; empty: the model's own
  bool has_tools = false;          // takes the template for tools, if there are several
};

Result<TextParts> open_text(const Model& model, const TextPartsOptions& options = {});

struct ChatPrompt {
  std::string text;          // it may end inside a thought, in which the answer then begins
  std::vector<int32_t> ids;  // of the whole conversation
  // Pictures and sounds of the whole conversation in its order, and where their rows lie among the ids.
  std::vector<PreparedMedia> media = {};
  std::vector<MediaSpan> spans = {};
  Json tools = {};                // that the answer may call, as OpenAI's list; null: none
  bool asks_for_thought = false;  // the template was asked for thinking, so the answer may begin with a thought
};
// The character by which guard_messages() keeps strangers' text from becoming control tokens: one that no text has.
inline constexpr std::string_view kGuard = "\xEF\xB7\x90";  // U+FDD0, which Unicode reserves for uses like this
// Messages for render_chat(), with what the system, users and tools say guarded: contents that are text, and the texts
// in contents that are lists of parts. Text that has kGuard is an error.
Result<Json> guard_messages(const TextParts& text, Json messages);

// Renders messages by the chat template. `variables`: further variables of the template, an object or null; its member
// "tools" lists tools. `media`: all that the messages show, in their order.
Result<ChatPrompt> render_chat(const TextParts& text, Json messages, Json variables,
                               std::vector<PreparedMedia> media = {});

// The parts of open_text(), as text/tokenizer_files.h has them.
Result<Vocabulary> read_vocabulary(const Checkpoint& checkpoint);
Status check_vocabulary(const Checkpoint& checkpoint);
Result<std::optional<ChatSource>> stored_chat_template(const Checkpoint& checkpoint, bool has_tools);

}  // namespace sluice
