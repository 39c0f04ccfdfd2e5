#include "chat/chat_session.h"

#include <algorithm>
#include <utility>

#include "chat/thought_budget.h"

namespace sluice {
namespace {

std::vector<int32_t> tokens_of(const History& history) {
  std::vector<int32_t> tokens;
  for (const HistoryToken& one : history) tokens.push_back(one.token);
  return tokens;
}

// As prompt tokens.
History history_of(const ChatPrompt& prompt) {
  History history;
  for (const int32_t id : prompt.ids) history.push_back({id, TokenClass::prompt});
  for (const MediaSpan& span : prompt.spans)
    for (uint32_t row = 0; row < span.rows; ++row) history[span.at + row].media = {span.content, row, span.shape};
  return history;
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

// A picture of which the sequence knows a part, or another one in its place, is not reused.
size_t ChatSession::reusable(const ChatPrompt& prompt) const {
  const Result<History> history = session_.history();
  if (!history || prompt.ids.empty()) return 0;
  const History wanted = history_of(prompt);
  const auto is_same = [](const HistoryToken& a, const HistoryToken& b) {
    return a.token == b.token && a.media == b.media;
  };
  const auto same = std::mismatch(history->begin(), history->end(), wanted.begin(), wanted.end(), is_same).first;
  size_t kept =
      std::min(static_cast<size_t>(same - history->begin()), wanted.size() - 1);  // one gives the first logits
  for (const MediaSpan& span : prompt.spans)
    if (span.at < kept && kept < uint64_t{span.at} + span.rows) kept = span.at;
  return kept;
}

// Keeps of the sequence what the prompt begins with; the rest is the request's prompt.
Result<Request> ChatSession::make_request(const ChatPrompt& prompt, const TurnSettings& settings) {
  const std::vector<int32_t>& ids = prompt.ids;
  if (ids.empty()) return error(ErrorKind::invalid, "the prompt is empty: want some text");
  if (ids.size() >= engine_->context()) {
    return error(ErrorKind::invalid, "the conversation has ", ids.size(), " tokens: want less than the context of ",
                 engine_->context(), settings.context_hint);
  }
  kept_ = reusable(prompt);
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
  request.adapters = settings.adapters;
  request.choice = settings.choice;
  const bool begun = starts_thinking(*dialect_, prompt.text);
  if (settings.grammar != nullptr) {
    const AnswerConstraint::Thought thought{.begun = begun, .allowed = prompt.asks_for_thought};
    auto constraint =
        std::make_shared<AnswerConstraint>(settings.grammar, text_->tokenizer, *dialect_, thought, text_->ends);
    if (settings.log_probs != LogProbs::none) constraint->sample_always();
    request.constraint = std::move(constraint);
  }
  if (settings.thought_budget) {
    const bool has_tools = prompt.tools.is_array() && !prompt.tools.as_array().empty();
    request.constraint = bound_thought(*settings.thought_budget, text_->tokenizer, *dialect_,
                                       has_tools ? text_->tool_syntax : nullptr, begun, std::move(request.constraint));
  }
  TRY_STATUS(add_media(prompt, request));
  return request;
}

// All of them are given again, because what is behind the kept part may need its rows again.
Status ChatSession::add_media(const ChatPrompt& prompt, Request& request) {
  for (const PreparedMedia& one : prompt.media) TRY_STATUS(engine_->give_media(one.input));
  for (MediaSpan span : prompt.spans) {
    if (span.at < kept_) continue;
    span.at -= static_cast<uint32_t>(kept_);
    request.media.push_back(span);
  }
  return {};
}

Status ChatSession::begin(const ChatPrompt& prompt, const TurnSettings& settings,
                          const std::vector<uint32_t>& message_ends) {
  if (running()) return error(ErrorKind::invalid, "an answer is being made: want it to end first");
  TRY(Request request, make_request(prompt, settings));
  for (const uint32_t end : message_ends)
    if (end > kept_) request.message_ends.push_back(end - static_cast<uint32_t>(kept_));
  TRY_STATUS(session_.begin(std::move(request)));
  events_.clear();
  calls_.clear();
  media_ = prompt.media;
  spans_ = prompt.spans;
  log_probs_ = settings.log_probs;
  candidates_ = settings.sampling.candidates;
  calls_left_ = settings.max_calls;
  last_call_ = false;
  const auto show = [this](Channel channel, const std::string& text) {
    if (channel == Channel::thinking)
      events_.emplace_back(ThinkingEvent{text});
    else
      events_.emplace_back(TextEvent{text});
  };
  stream_ = std::make_unique<AnswerStream>(text_->tokenizer, *dialect_, prompt.text, settings.stops, show);
  if (prompt.tools.is_array() && !prompt.tools.as_array().empty())
    stream_->expect_calls({text_->tool_syntax, prompt.tools}, [this](ToolCall call) { take_call(std::move(call)); });
  return {};
}

void ChatSession::take_call(ToolCall call) {
  if (last_call_) return;
  calls_.push_back(call);
  events_.emplace_back(ToolCallEvent{std::move(call)});
  last_call_ = calls_left_ == 1;
  if (calls_left_ > 0) --calls_left_;
}

// False when the answer has ended.
bool ChatSession::push(const SampleResult& token) {
  if (stream_->stopped() || last_call_) return false;
  const size_t event = events_.size();
  const bool goes_on = stream_->push(token.token) && !last_call_;
  if (log_probs_ != LogProbs::none) note_log_prob(token, event);
  return goes_on;
}

// `event`: where the events begin that the token has caused.
void ChatSession::note_log_prob(const SampleResult& token, size_t event) {
  const std::optional<Channel> channel = stream_->last_text();
  if (!channel || (*channel == Channel::thinking && log_probs_ != LogProbs::text)) return;
  const auto bytes = [&](int32_t id) { return std::string(text_->tokenizer.bytes(id)); };
  TokenLogProb one{.bytes = bytes(token.token), .log_prob = token.log_prob};
  for (const Candidate& candidate : token.candidates)
    if (candidate.token >= 0 && candidate.token < text_->tokenizer.size() && one.top.size() < candidates_)
      one.top.emplace_back(bytes(candidate.token), candidate.token == token.token
                                                       ? token.log_prob  // which was not rounded on the way
                                                       : candidate.logit - token.log_sum_exp);
  events_.insert(events_.begin() + static_cast<std::ptrdiff_t>(event), LogProbEvent{std::move(one)});
}

Status ChatSession::collect() {
  if (!running()) return {};
  TRY(const Progress progress, session_.collect());
  for (const SampleResult& token : progress.tokens) {
    if (push(token)) continue;
    session_.cancel();
    break;
  }
  if (progress.finish == Finish::running) return {};
  if (!last_call_) stream_->finish();
  events_.emplace_back(DoneEvent{end_of(progress.finish), usage(), stream_->stop()});
  return {};
}

Result<StepState> ChatSession::step() {
  const StepState state = engine_->step();
  TRY_STATUS(collect());
  return state;
}

std::vector<TurnEvent> ChatSession::take_events() { return std::exchange(events_, {}); }

TurnEnd ChatSession::end_of(Finish finish) const {
  if (stream_->stopped() || last_call_ || finish == Finish::stop_token) return TurnEnd::stop;
  return finish == Finish::length ? TurnEnd::length : TurnEnd::cancelled;
}

const PreparedMedia* ChatSession::awaited() const {
  const Answer& run = session_.answer();
  if (!running() || !run.tokens.empty()) return nullptr;
  const size_t done = std::max(kept_, size_t{run.reused_tokens} + run.computed_prompt_tokens);
  const auto is_ahead = [done](const MediaSpan& span) { return span.at + size_t{span.rows} > done; };
  const auto next = std::ranges::find_if(spans_, is_ahead);
  if (next == spans_.end()) return nullptr;
  return &*std::ranges::find(media_, next->content, [](const PreparedMedia& one) { return one.input.content; });
}

Usage ChatSession::usage() const {
  const Answer& run = session_.answer();
  return {.prompt_tokens = run.prompt_tokens,
          .reused_tokens = run.reused_tokens,
          .restored_tokens = run.restored_tokens,
          .computed_tokens = run.computed_prompt_tokens,
          .answer_tokens = static_cast<uint32_t>(run.tokens.size()),
          .thinking_tokens = stream_ ? stream_->thinking_tokens() : 0,
          .drafted = run.drafted,
          .accepted = run.accepted,
          .undrafted_steps = run.undrafted_steps,
          .prompt_seconds = run.prompt_seconds,
          .answer_seconds = run.answer_seconds};
}

}  // namespace sluice
