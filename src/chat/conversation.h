// A conversation: messages rendered by the model's chat template, answered by an engine, kept for the next turn.
//
// Each turn renders all messages and keeps the part of the engine's sequence that agrees with them token by token, so
// only the rest is computed. Without a template (base models, --raw) the text goes on where it ended.
//
// ask() waits for the answer. A caller that may not wait begins the turn, and steps until it is over.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/chat_session.h"
#include "chat/text_parts.h"
#include "chat/turn.h"

namespace sluice {

struct ChatMessage {
  std::string role, content;
  std::string thinking = {};  // the thinking before an answer; templates do not get it again
  size_t history = 0;         // for a question: the sequence's tokens before it
  // That it shows. Markers in the text say where (chat/media_parts.h).
  std::vector<PreparedMedia> media = {};
  std::vector<ToolCall> calls = {};  // of tools, that an answer makes
  std::string tool = {};             // whose result it is, for the role "tool"
};

struct ConversationSettings {
  bool raw = false;
  std::optional<bool> think;  // none: the template's default
  std::string system;
  TurnSettings turn;
  std::vector<ChatMessage> opening = {};  // the first messages of a new conversation
  Json tools = {};                        // that answers may call, as OpenAI's list; null: none
  bool must_call = false;  // turn.grammar makes answers to questions call; those to results of tools are free
};

struct Reply {
  std::string answer, thinking;
  std::vector<ToolCall> calls;
  TurnEnd end{};
  Usage usage;
};

// Callbacks during a reply. Each may be empty.
struct TurnWatch {
  std::function<void(const TurnEvent&)> event = {};
  // When the prompt comes to a picture or sound, before its tower runs, and null once it is past all of them.
  std::function<void(const PreparedMedia*)> looking = {};
  std::function<bool(const Usage&)> keep_going = {};  // after every step of the engine; false cancels the answer
};

class Conversation {
 public:
  // Both outlive the conversation.
  Conversation(const TextParts& text, Engine& engine, ConversationSettings settings);
  const Engine& engine() const { return *engine_; }

  // Waits for the answer. A failed turn leaves the conversation unchanged; an interrupted one keeps the text so far.
  Result<Reply> ask(const std::string& question, const TurnWatch& watch, std::vector<PreparedMedia> media = {});

  Result<Reply> ask(ChatMessage message, const TurnWatch& watch);  // a question, or the result of a tool

  // The same without waiting: begin(), then step() until running() is false, with take_events() in between. Nothing
  // else may be done to the conversation meanwhile, but cancel().
  Status begin(const std::string& question, std::vector<PreparedMedia> media = {});
  Status begin(ChatMessage message);
  Result<StepState> step();
  Status collect();  // for callers that step the engine themselves: what it has made since
  std::vector<TurnEvent> take_events() { return session_.take_events(); }
  void cancel() { session_.cancel(); }
  bool running() const { return session_.running(); }
  Usage usage() const { return session_.usage(); }

  // The call whose result comes next: the first of the last answer that has none. Null: there is none.
  const ToolCall* open_call() const;
  size_t open_calls() const;  // that one and those behind it
  // Adds the result of that call without an answer to it, because more are to come.
  void add_result(ChatMessage result) { messages_.push_back(std::move(result)); }
  void clear();  // all but the system message and the opening
  // Removes the last question and everything after it, and returns the question with its pictures; none if there is no
  // question. The text before it is not computed again.
  std::optional<ChatMessage> undo();
  // Drops the oldest questions with their answers, until `tokens` of the sequence are gone; the last one stays, and so
  // does the opening. Gives the number of messages that went.
  size_t drop_oldest(size_t tokens);
  void set_system(std::string system);
  // Those of the turns that follow, which compute the text again with them.
  void set_adapters(AdapterSum adapters) { settings_.turn.adapters = std::move(adapters); }
  const std::string& system() const { return settings_.system; }
  const ConversationSettings& settings() const { return settings_; }
  const std::vector<ChatMessage>& messages() const { return messages_; }
  // Replaces the messages. Text that agrees with the old ones is not computed again.
  void replace(ConversationSettings settings, std::vector<ChatMessage> messages);
  // The engine's computed state of this conversation.
  bool has_state() const;
  Result<History> history() const { return session_.sequence().history(); }
  Status save_state(const std::string& path) { return session_.sequence().save(path); }
  Status load_state(const std::string& path, std::string* note) { return session_.sequence().load(path, note); }
  bool shows_media() const;  // in some message
  bool has_template() const { return !settings_.raw && text_->chat.has_value(); }
  const ChatDialect& dialect() const { return session_.dialect(); }

 private:
  Result<ChatPrompt> prompt_of(const ChatMessage& question) const;
  Result<ChatPrompt> render(const ChatMessage& question) const;
  std::vector<uint32_t> opening_end(const ChatMessage& question, const ChatPrompt& prompt) const;
  std::string text_so_far() const;

  const TextParts* text_;
  Engine* engine_;
  ChatSession session_;
  ConversationSettings settings_;
  std::vector<ChatMessage> messages_;
  ChatMessage question_;  // of the turn that runs
};

}  // namespace sluice
