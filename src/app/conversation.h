// A conversation: messages rendered by the model's chat template, answered by a session, kept for the next turn.
//
// Each turn renders all messages and keeps of the session what still agrees with them, token by token, so that only
// what is new is computed. Without a template (base models, --raw) the text goes on where it ended.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/answer_stream.h"
#include "base/json.h"
#include "base/result.h"
#include "engine/session.h"
#include "engine/text_files.h"

namespace sluice {

struct ConversationSettings {
  bool raw = false;
  std::optional<bool> think;  // nothing: as the template does by itself
  std::string system;
  SamplingSettings sampling;
  uint32_t max_tokens = 0;  // 0: what the context leaves
  std::vector<std::string> stops;
};

struct Reply {
  std::string answer, thinking;
  Answer run;                  // tokens, times, counts
  bool stopped = false;        // by a stop string
  const char* finish() const;  // "stop", "length" or "interrupted"
};

// What happens while a reply is made. Either may be empty.
struct ReplyWatch {
  AnswerStream::Show show;
  std::function<bool(uint32_t computed, uint32_t prompt)> keep_going;  // tokens of the prompt; false stops
};

class Conversation {
 public:
  // Both outlive the conversation.
  Conversation(const TextParts& text, Engine& engine, ConversationSettings settings);

  // A failed turn leaves the conversation as it was; an interrupted one keeps what was said.
  Result<Reply> ask(const std::string& prompt, const ReplyWatch& watch);
  void clear();  // all but the system message
  void set_system(std::string system);
  const std::string& system() const { return settings_.system; }
  bool has_template() const { return !settings_.raw && text_->chat.has_value(); }
  const ChatDialect& dialect() const { return *dialect_; }

 private:
  struct Prompt {
    std::string text;
    std::vector<int32_t> ids;  // of the whole conversation
  };
  Result<Prompt> render(const Json& messages) const;
  Result<Prompt> go_on(const std::string& text) const;
  Result<Request> make_request(const std::vector<int32_t>& ids);
  Json with_message(const char* role, const std::string& content) const;

  const TextParts* text_;
  Engine* engine_;
  Session session_;
  ConversationSettings settings_;
  const ChatDialect* dialect_;
  Json::Array messages_;
};

}  // namespace sluice
