#include "chat/chat_session.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

std::vector<int32_t> tokens_of(const History& history) {
  std::vector<int32_t> tokens;
  for (const HistoryToken& one : history) tokens.push_back(one.token);
  return tokens;
}

}  // namespace

ChatPrompt ChatSession::plain(const std::string& text) const {
  return {text, text_->tokenizer.encode(text, {.add_special = true})};
}

Result<ChatPrompt> ChatSession::continued(const std::string& text) const {
  TRY(const History history, session_.history());
  ChatPrompt prompt{text, tokens_of(history)};
  const std::vector<int32_t> added = text_->tokenizer.encode(text, {.add_special = false});
  prompt.ids.insert(prompt.ids.end(), added.begin(), added.end());
  return prompt;
}

size_t ChatSession::reusable(const std::vector<int32_t>& ids) const {
  const Result<History> history = session_.history();
  if (!history || ids.empty()) return 0;
  const std::vector<int32_t> known = tokens_of(*history);
  const auto same = std::mismatch(known.begin(), known.end(), ids.begin(), ids.end()).first - known.begin();
  return std::min(static_cast<size_t>(same), ids.size() - 1);  // the last token gives the first logits
}

// Keeps of the sequence what the prompt begins with; the rest is the request's prompt.
Result<Request> ChatSession::make_request(const ChatPrompt& prompt, const TurnSettings& settings) {
  const std::vector<int32_t>& ids = prompt.ids;
  if (ids.empty()) return error(ErrorKind::invalid, "the prompt is empty: want some text");
  if (ids.size() >= engine_->context()) {
    return error(ErrorKind::invalid, "the conversation has ", ids.size(), " tokens: want less than the context of ",
                 engine_->context(), settings.context_hint);
  }
  kept_ = reusable(ids);
  if (!session_.truncate(kept_)) {
    session_.clear();
    kept_ = 0;
  }
  Request request;
  request.prompt.assign(ids.begin() + static_cast<std::ptrdiff_t>(kept_), ids.end());
  const auto room = static_cast<uint32_t>(engine_->context() - ids.size());
  request.max_tokens = settings.max_tokens == 0 ? room : std::min(room, settings.max_tokens);
  request.stop_tokens = text_->ends;
  request.sampling = settings.sampling;
  return request;
}

Status ChatSession::begin(const ChatPrompt& prompt, const TurnSettings& settings,
                          const std::vector<uint32_t>& message_ends) {
  if (running()) return error(ErrorKind::invalid, "an answer is being made: want it to end first");
  TRY(Request request, make_request(prompt, settings));
  for (const uint32_t end : message_ends)
    if (end > kept_) request.message_ends.push_back(end - static_cast<uint32_t>(kept_));
  TRY_STATUS(session_.begin(std::move(request)));
  events_.clear();
  const auto show = [this](Channel channel, const std::string& text) {
    if (channel == Channel::thinking)
      events_.emplace_back(ThinkingEvent{text});
    else
      events_.emplace_back(TextEvent{text});
  };
  stream_ = std::make_unique<AnswerStream>(text_->tokenizer, *dialect_, prompt.text, settings.stops, show);
  return {};
}

Status ChatSession::collect() {
  if (!running()) return {};
  TRY(const Progress progress, session_.collect());
  for (const SampleResult& token : progress.tokens) {
    if (!stream_->stopped() && stream_->push(token.token)) continue;
    session_.cancel();
    break;
  }
  if (progress.finish == Finish::running) return {};
  stream_->finish();
  events_.emplace_back(DoneEvent{end_of(progress.finish), usage()});
  return {};
}

Result<StepState> ChatSession::step() {
  const StepState state = engine_->step();
  TRY_STATUS(collect());
  return state;
}

std::vector<TurnEvent> ChatSession::take_events() { return std::exchange(events_, {}); }

TurnEnd ChatSession::end_of(Finish finish) const {
  if (stream_->stopped() || finish == Finish::stop_token) return TurnEnd::stop;
  return finish == Finish::length ? TurnEnd::length : TurnEnd::cancelled;
}

Usage ChatSession::usage() const {
  const Answer& run = session_.answer();
  return {.prompt_tokens = run.prompt_tokens,
          .reused_tokens = run.reused_tokens,
          .restored_tokens = run.restored_tokens,
          .computed_tokens = run.computed_prompt_tokens,
          .answer_tokens = static_cast<uint32_t>(run.tokens.size()),
          .drafted = run.drafted,
          .accepted = run.accepted,
          .undrafted_steps = run.undrafted_steps,
          .prompt_seconds = run.prompt_seconds,
          .answer_seconds = run.answer_seconds};
}

}  // namespace sluice
