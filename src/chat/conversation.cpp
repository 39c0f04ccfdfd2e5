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

std::vector<int32_t> tokens_of(const History& history) {
  std::vector<int32_t> tokens;
  for (const HistoryToken& one : history) tokens.push_back(one.token);
  return tokens;
}

}  // namespace

const char* Reply::finish() const {
  if (stopped || run.finish == Finish::stop_token) return "stop";
  return run.finish == Finish::length ? "length" : "interrupted";
}

Conversation::Conversation(const TextParts& text, Engine& engine, ConversationSettings settings)
    : text_(&text),
      engine_(&engine),
      session_(engine),
      settings_(std::move(settings)),
      dialect_(&dialect_of(text, settings_.raw)),
      messages_(settings_.opening) {}

void Conversation::clear() {
  messages_ = settings_.opening;
  session_.clear();
}

std::optional<std::string> Conversation::undo() {
  const auto is_question = [](const ChatMessage& message) { return message.role == "user"; };
  const auto last = std::find_if(messages_.rbegin(), messages_.rend(), is_question);
  if (last == messages_.rend()) return std::nullopt;
  std::string question = std::move(last->content);
  const size_t before = last->history;
  messages_.erase(last.base() - 1, messages_.end());
  const Result<History> history = session_.history();
  if (!history || !session_.truncate(std::min(before, history->size()))) session_.clear();
  return question;
}

void Conversation::replace(ConversationSettings settings, std::vector<ChatMessage> messages) {
  settings_ = std::move(settings);
  messages_ = std::move(messages);
}

bool Conversation::has_state() const {
  const Result<History> history = session_.history();
  return history.ok() && !history->empty();
}

void Conversation::set_system(std::string system) { settings_.system = std::move(system); }

Json Conversation::with_question(const std::string& text) const {
  Json::Array messages;
  if (!settings_.system.empty()) messages.push_back(message_json("system", settings_.system));
  for (const ChatMessage& message : messages_) messages.push_back(message_json(message.role, message.content));
  messages.push_back(message_json("user", text));
  return messages;
}

// Of a conversation without a template, where messages follow each other as they are.
std::string Conversation::text_so_far() const {
  std::string text;
  for (const ChatMessage& message : messages_) text += message.content;
  return text;
}

Result<Conversation::Prompt> Conversation::render(const Json& messages) const {
  ChatInput input;
  input.messages = messages;
  input.special_tokens = text_->special_tokens;
  if (settings_.think) input.extra = Json::Object{{"enable_thinking", *settings_.think}};
  TRY(std::string rendered, text_->chat->render(input));
  std::vector<int32_t> ids = text_->tokenizer.encode(rendered);
  return Prompt{std::move(rendered), std::move(ids)};
}

Result<Conversation::Prompt> Conversation::go_on(const std::string& text) const {
  TRY(const History history, session_.history());
  Prompt prompt{text, tokens_of(history)};
  // Without a history there is what was said to another model, or in another session.
  const std::vector<int32_t> added = history.empty()
                                         ? text_->tokenizer.encode(text_so_far() + text, {.add_special = true})
                                         : text_->tokenizer.encode(text, {.add_special = false});
  prompt.ids.insert(prompt.ids.end(), added.begin(), added.end());
  return prompt;
}

// Keeps of the session what `ids` begin with; the rest is the request's prompt.
Result<Request> Conversation::make_request(const std::vector<int32_t>& ids) {
  TRY(const History history, session_.history());
  const std::vector<int32_t> known = tokens_of(history);
  size_t kept =
      static_cast<size_t>(std::mismatch(known.begin(), known.end(), ids.begin(), ids.end()).first - known.begin());
  kept = std::min(kept, ids.size() - 1);  // the last token gives the first logits
  TRY_STATUS(session_.truncate(kept));
  if (ids.size() >= engine_->context()) {
    return error(ErrorKind::invalid, "the conversation has ", ids.size(), " tokens: want less than the context of ",
                 engine_->context(), " (--context, or /clear)");
  }
  Request request;
  request.prompt.assign(ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end());
  const auto room = static_cast<uint32_t>(engine_->context() - ids.size());
  request.max_tokens = settings_.max_tokens == 0 ? room : std::min(room, settings_.max_tokens);
  request.stop_tokens = text_->ends;
  request.sampling = settings_.sampling;
  return request;
}

// Where a new conversation's first question begins, as far as other questions have the same tokens before them: from
// there others with the same opening go on.
std::vector<uint32_t> Conversation::opening_end(const std::string& question, const std::vector<int32_t>& ids) const {
  if (!has_template() || (settings_.system.empty() && messages_.empty()) || has_state()) return {};
  const Result<Prompt> other = render(with_question(starts_with(question, "?") ? "!" : "?"));
  if (!other) return {};
  const auto end = std::mismatch(ids.begin(), ids.end(), other->ids.begin(), other->ids.end()).first;
  return {static_cast<uint32_t>(end - ids.begin())};
}

Result<Reply> Conversation::ask(const std::string& text, const ReplyWatch& watch) {
  if (!is_utf8(text)) return error(ErrorKind::invalid, "the prompt is not UTF-8: want text");
  TRY(const Prompt prompt, has_template() ? render(with_question(text)) : go_on(text));
  if (prompt.ids.empty()) return error(ErrorKind::invalid, "the prompt is empty: want some text");
  TRY(Request request, make_request(prompt.ids));
  request.message_ends = opening_end(text, prompt.ids);
  const size_t before = prompt.ids.size() - request.prompt.size();
  AnswerStream stream(
      text_->tokenizer, *dialect_, prompt.text, settings_.stops,
      watch.show ? watch.show : [](Channel, const std::string&) {});
  const auto on_token = [&](const SampleResult& token) { return stream.push(token.token); };
  const auto on_wait = [&](const Progress& progress) {
    return !watch.keep_going || watch.keep_going(progress.computed_prompt_tokens, progress.prompt_tokens);
  };
  TRY(Answer answer, session_.run(std::move(request), on_token, on_wait));
  stream.finish();
  messages_.push_back({.role = "user", .content = text, .history = before});
  messages_.push_back({.role = "assistant", .content = stream.answer(), .thinking = stream.thinking()});
  return Reply{stream.answer(), stream.thinking(), std::move(answer), stream.stopped()};
}

}  // namespace sluice
