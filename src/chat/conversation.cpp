#include "chat/conversation.h"

#include <algorithm>
#include <cstddef>
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
// Calls and results as OpenAI's messages have them, but the arguments are an object: so templates want it.
Json message_json(const ChatMessage& message) {
  Json::Array calls;
  for (const ToolCall& call : message.calls) {
    Json function = Json::Object{{"name", call.name}, {"arguments", call.arguments}};
    calls.emplace_back(Json::Object{{"type", "function"}, {"function", std::move(function)}});
  }
  if (!calls.empty())
    return Json::Object{{"role", message.role}, {"content", message.content}, {"tool_calls", std::move(calls)}};
  if (!message.tool.empty())
    return Json::Object{{"role", message.role}, {"name", message.tool}, {"content", message.content}};
  if (message.media.empty()) return message_json(message.role, message.content);
  return Json::Object{{"role", message.role}, {"content", content_parts(message.content, message.media)}};
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

std::optional<ChatMessage> Conversation::undo() {
  const auto is_question = [](const ChatMessage& message) { return message.role == "user"; };
  const auto last = std::find_if(messages_.rbegin(), messages_.rend(), is_question);
  if (last == messages_.rend()) return std::nullopt;
  ChatMessage question = std::move(*last);
  const size_t before = question.history;
  messages_.erase(last.base() - 1, messages_.end());
  Session& sequence = session_.sequence();
  const Result<History> history = sequence.history();
  if (!history || !sequence.truncate(std::min(before, history->size()))) sequence.clear();
  return question;
}

size_t Conversation::drop_oldest(size_t tokens) {
  const size_t first = std::min(settings_.opening.size(), messages_.size());
  std::vector<size_t> questions;
  for (size_t i = first; i < messages_.size(); ++i)
    if (messages_[i].role == "user") questions.push_back(i);
  if (questions.size() < 2) return 0;
  const size_t before = messages_[questions.front()].history;
  const auto is_enough = [&](size_t at) { return messages_[at].history >= before + tokens; };
  auto kept = std::find_if(questions.begin() + 1, questions.end(), is_enough);
  // Where nobody knows how long they are, such as after a change of the model, half of them go.
  const bool known = messages_[questions.back()].history > before;
  if (!known) kept = questions.begin() + static_cast<std::ptrdiff_t>((questions.size() + 1) / 2);
  if (kept == questions.end()) --kept;
  const size_t gone = messages_[*kept].history - std::min(before, messages_[*kept].history);
  const size_t dropped = *kept - first;
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(first),
                  messages_.begin() + static_cast<std::ptrdiff_t>(*kept));
  for (size_t i = first; i < messages_.size(); ++i) messages_[i].history -= std::min(gone, messages_[i].history);
  session_.sequence().clear();
  return dropped;
}

void Conversation::replace(ConversationSettings settings, std::vector<ChatMessage> messages) {
  settings_ = std::move(settings);
  messages_ = std::move(messages);
}

bool Conversation::has_state() const {
  const Result<History> history = session_.sequence().history();
  return history.ok() && !history->empty();
}

bool Conversation::shows_media() const {
  return std::ranges::any_of(messages_, [](const ChatMessage& message) { return !message.media.empty(); });
}

void Conversation::set_system(std::string system) { settings_.system = std::move(system); }

// Of a conversation without a template, where messages follow each other as they are.
std::string Conversation::text_so_far() const {
  std::string text;
  for (const ChatMessage& message : messages_) text += message.content;
  return text;
}

Result<ChatPrompt> Conversation::render(const ChatMessage& question) const {
  std::vector<PreparedMedia> media;
  Json::Array messages;
  if (!settings_.system.empty()) messages.push_back(message_json("system", settings_.system));
  const auto add = [&](const ChatMessage& message) -> Status {
    Json one = message_json(message);
    // What a tool says is nobody's own words, so it becomes no control token.
    if (message.role == "tool") {
      TRY(const Json guarded, guard_messages(*text_, Json::Array{std::move(one)}));
      one = guarded.as_array().front();
    }
    messages.push_back(std::move(one));
    media.insert(media.end(), message.media.begin(), message.media.end());
    return {};
  };
  for (const ChatMessage& message : messages_) TRY_STATUS(add(message));
  TRY_STATUS(add(question));
  Json variables = Json::Object{};
  if (settings_.think) variables.add("enable_thinking", *settings_.think);
  if (!settings_.tools.is_null()) variables.add("tools", settings_.tools);
  return session_.render(std::move(messages), std::move(variables), std::move(media));
}

Result<ChatPrompt> Conversation::prompt_of(const ChatMessage& question) const {
  if (has_template()) return render(question);
  if (!question.media.empty())
    return error(ErrorKind::unsupported, "pictures and sounds need a chat template: want a prompt without them");
  // Without a sequence there is what was said to another model, or in another session.
  if (has_state()) return session_.continued(question.content);
  ChatPrompt prompt = session_.plain(text_so_far() + question.content);
  prompt.text = question.content;
  return prompt;
}

// Where a new conversation's first question begins, as far as other questions have the same tokens before them: from
// there others with the same opening go on.
std::vector<uint32_t> Conversation::opening_end(const ChatMessage& question, const ChatPrompt& prompt) const {
  if (!has_template() || (settings_.system.empty() && messages_.empty()) || session_.reusable(prompt) > 0) return {};
  const Result<ChatPrompt> other = render({.role = "user", .content = starts_with(question.content, "?") ? "!" : "?"});
  if (!other) return {};
  const std::vector<int32_t>& ids = prompt.ids;
  const auto end = std::mismatch(ids.begin(), ids.end(), other->ids.begin(), other->ids.end()).first;
  return {static_cast<uint32_t>(end - ids.begin())};
}

size_t Conversation::open_calls() const {
  const auto is_result = [](const ChatMessage& message) { return message.role == "tool"; };
  const auto last = std::find_if_not(messages_.rbegin(), messages_.rend(), is_result);
  if (last == messages_.rend()) return 0;
  const auto results = static_cast<size_t>(last - messages_.rbegin());
  return last->calls.size() - std::min(results, last->calls.size());
}

const ToolCall* Conversation::open_call() const {
  const size_t open = open_calls();
  if (open == 0) return nullptr;
  const auto calling = std::find_if(messages_.rbegin(), messages_.rend(),
                                    [](const ChatMessage& message) { return message.role != "tool"; });
  return &calling->calls[calling->calls.size() - open];
}

Status Conversation::begin(const std::string& question, std::vector<PreparedMedia> media) {
  return begin(ChatMessage{.role = "user", .content = question, .media = std::move(media)});
}

Status Conversation::begin(ChatMessage message) {
  if (!is_utf8(message.content)) return error(ErrorKind::invalid, "the prompt is not UTF-8: want text");
  TRY(const ChatPrompt prompt, prompt_of(message));
  TurnSettings turn = settings_.turn;
  if (settings_.must_call && message.role == "tool") turn.grammar = nullptr;
  TRY_STATUS(session_.begin(prompt, turn, opening_end(message, prompt)));
  question_ = std::move(message);
  return {};
}

Status Conversation::collect() {
  if (!running()) return {};
  TRY_STATUS(session_.collect());
  if (running()) return {};
  question_.history = session_.kept();
  messages_.push_back(std::exchange(question_, {}));
  messages_.push_back(
      {.role = "assistant", .content = session_.answer(), .thinking = session_.thinking(), .calls = session_.calls()});
  return {};
}

Result<StepState> Conversation::step() {
  const StepState state = engine_->step();
  TRY_STATUS(collect());
  return state;
}

Result<Reply> Conversation::ask(const std::string& question, const TurnWatch& watch, std::vector<PreparedMedia> media) {
  return ask(ChatMessage{.role = "user", .content = question, .media = std::move(media)}, watch);
}

Result<Reply> Conversation::ask(ChatMessage message, const TurnWatch& watch) {
  TRY_STATUS(begin(std::move(message)));
  Reply reply;
  const PreparedMedia* seen = nullptr;
  const auto look = [&] {
    if (const PreparedMedia* next = session_.awaited(); next != seen && watch.looking) watch.looking(seen = next);
  };
  look();
  while (running()) {
    TRY(const StepState state, step());
    look();
    for (const TurnEvent& event : take_events()) {
      if (const auto* done = std::get_if<DoneEvent>(&event)) reply.end = done->end;
      if (watch.event) watch.event(event);
    }
    if (watch.keep_going && !watch.keep_going(usage())) cancel();
    if (state == StepState::in_flight && running()) engine_->wait();
  }
  reply.answer = session_.answer();
  reply.thinking = session_.thinking();
  reply.calls = session_.calls();
  reply.usage = usage();
  return reply;
}

}  // namespace sluice
