#include "chat/conversation.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/unicode.h"

namespace sluice {
namespace {

const ChatDialect& dialect_of(const TextParts& text, bool raw) {
  const auto has_token = [&](std::string_view token) { return text.tokenizer.find(token).has_value(); };
  return detect_dialect(raw || !text.chat ? std::string_view() : text.chat->text(), has_token);
}

Json message_json(const std::string& role, const std::string& content) {
  return Json::Object{{"role", role}, {"content", content}};
}

}  // namespace

Conversation::Conversation(const TextParts& text, Engine& engine, ConversationSettings settings)
    : text_(&text),
      engine_(&engine),
      session_(text, engine, dialect_of(text, settings.raw)),
      settings_(std::move(settings)),
      messages_(settings_.opening) {}

void Conversation::clear() {
  messages_ = settings_.opening;
  session_.sequence().clear();
}

std::optional<std::string> Conversation::undo() {
  const auto is_question = [](const ChatMessage& message) { return message.role == "user"; };
  const auto last = std::find_if(messages_.rbegin(), messages_.rend(), is_question);
  if (last == messages_.rend()) return std::nullopt;
  std::string question = std::move(last->content);
  const size_t before = last->history;
  messages_.erase(last.base() - 1, messages_.end());
  Session& sequence = session_.sequence();
  const Result<History> history = sequence.history();
  if (!history || !sequence.truncate(std::min(before, history->size()))) sequence.clear();
  return question;
}

void Conversation::replace(ConversationSettings settings, std::vector<ChatMessage> messages) {
  settings_ = std::move(settings);
  messages_ = std::move(messages);
}

bool Conversation::has_state() const {
  const Result<History> history = session_.sequence().history();
  return history.ok() && !history->empty();
}

void Conversation::set_system(std::string system) { settings_.system = std::move(system); }

// Of a conversation without a template, where messages follow each other as they are.
std::string Conversation::text_so_far() const {
  std::string text;
  for (const ChatMessage& message : messages_) text += message.content;
  return text;
}

Result<ChatPrompt> Conversation::render(const std::string& question) const {
  Json::Array messages;
  if (!settings_.system.empty()) messages.push_back(message_json("system", settings_.system));
  for (const ChatMessage& message : messages_) messages.push_back(message_json(message.role, message.content));
  messages.push_back(message_json("user", question));
  Json variables;
  if (settings_.think) variables = Json::Object{{"enable_thinking", *settings_.think}};
  return session_.render(std::move(messages), std::move(variables));
}

Result<ChatPrompt> Conversation::prompt_of(const std::string& question) const {
  if (has_template()) return render(question);
  // Without a sequence there is what was said to another model, or in another session.
  if (has_state()) return session_.continued(question);
  ChatPrompt prompt = session_.plain(text_so_far() + question);
  prompt.text = question;
  return prompt;
}

// Where a new conversation's first question begins, as far as other questions have the same tokens before them: from
// there others with the same opening go on.
std::vector<uint32_t> Conversation::opening_end(const std::string& question, const std::vector<int32_t>& ids) const {
  if (!has_template() || (settings_.system.empty() && messages_.empty()) || session_.reusable(ids) > 0) return {};
  const Result<ChatPrompt> other = render(starts_with(question, "?") ? "!" : "?");
  if (!other) return {};
  const auto end = std::mismatch(ids.begin(), ids.end(), other->ids.begin(), other->ids.end()).first;
  return {static_cast<uint32_t>(end - ids.begin())};
}

Status Conversation::begin(const std::string& question) {
  if (!is_utf8(question)) return error(ErrorKind::invalid, "the prompt is not UTF-8: want text");
  TRY(const ChatPrompt prompt, prompt_of(question));
  TRY_STATUS(session_.begin(prompt, settings_.turn, opening_end(question, prompt.ids)));
  question_ = question;
  return {};
}

Status Conversation::collect() {
  if (!running()) return {};
  TRY_STATUS(session_.collect());
  if (running()) return {};
  messages_.push_back({.role = "user", .content = std::exchange(question_, {}), .history = session_.kept()});
  messages_.push_back({.role = "assistant", .content = session_.answer(), .thinking = session_.thinking()});
  return {};
}

Result<StepState> Conversation::step() {
  const StepState state = engine_->step();
  TRY_STATUS(collect());
  return state;
}

Result<Reply> Conversation::ask(const std::string& question, const TurnWatch& watch) {
  TRY_STATUS(begin(question));
  Reply reply;
  while (running()) {
    TRY(const StepState state, step());
    for (const TurnEvent& event : take_events()) {
      if (const auto* done = std::get_if<DoneEvent>(&event)) reply.end = done->end;
      if (watch.event) watch.event(event);
    }
    if (watch.keep_going && !watch.keep_going(usage())) cancel();
    if (state == StepState::in_flight && running()) engine_->wait();
  }
  reply.answer = session_.answer();
  reply.thinking = session_.thinking();
  reply.usage = usage();
  return reply;
}

}  // namespace sluice
