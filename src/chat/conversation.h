// A conversation: messages rendered by the model's chat template, answered by a session, kept for the next turn.
//
// Each turn renders all messages and keeps of the session what still agrees with them, token by token, so that only
// what is new is computed. Without a template (base models, --raw) the text goes on where it ended.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/text_parts.h"
#include "engine/session.h"
#include "text/answer_stream.h"

namespace sluice {

struct ChatMessage {
  std::string role, content;
  std::string thinking = {};  // that led to an answer; no template is given it again
  size_t history = 0;         // of a question: the session's tokens before it
};

struct ConversationSettings {
  bool raw = false;
  std::optional<bool> think;  // nothing: as the template does by itself
  std::string system;
  SamplingSettings sampling;
  uint32_t max_tokens = 0;  // 0: what the context leaves
  std::vector<std::string> stops;
  std::vector<ChatMessage> opening = {};  // what a new conversation begins with
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
  const Engine& engine() const { return *engine_; }

  // A failed turn leaves the conversation as it was; an interrupted one keeps what was said.
  Result<Reply> ask(const std::string& prompt, const ReplyWatch& watch);
  void clear();  // all but the system message and the opening
  // Takes back the last question with what followed, and gives it; nothing when there is none. What stood before it is
  // not computed again.
  std::optional<std::string> undo();
  void set_system(std::string system);
  const std::string& system() const { return settings_.system; }
  const ConversationSettings& settings() const { return settings_; }
  const std::vector<ChatMessage>& messages() const { return messages_; }
  // Goes on from there instead; what agrees with it is still not computed again.
  void replace(ConversationSettings settings, std::vector<ChatMessage> messages);
  // The engine's state: what is computed of this conversation.
  bool has_state() const;
  Status save_state(const std::string& path) { return session_.save(path); }
  Status load_state(const std::string& path, std::string* note) { return session_.load(path, note); }
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
  std::vector<uint32_t> opening_end(const std::string& question, const std::vector<int32_t>& ids) const;
  Json with_question(const std::string& text) const;
  std::string text_so_far() const;

  const TextParts* text_;
  Engine* engine_;
  Session session_;
  ConversationSettings settings_;
  const ChatDialect* dialect_;
  std::vector<ChatMessage> messages_;
};

}  // namespace sluice
