#include "text/answer_stream.h"

#include <utility>

namespace sluice {
namespace {

ChannelSplitter make_splitter(const Tokenizer& tokenizer, const ChatDialect& dialect, const std::string& prompt) {
  const Channel start = starts_thinking(dialect, prompt) ? Channel::thinking : Channel::answer;
  const bool tokens = tokenizer.find(dialect.open).has_value() && tokenizer.find(dialect.close).has_value();
  return ChannelSplitter(dialect, start,
                         tokens ? ChannelSplitter::Markers::as_tokens : ChannelSplitter::Markers::in_text);
}

}  // namespace

AnswerStream::AnswerStream(const Tokenizer& tokenizer, const ChatDialect& dialect, const std::string& prompt,
                           std::vector<std::string> stops, Show show)
    : tokenizer_(&tokenizer),
      dialect_(&dialect),
      detokenizer_(tokenizer, /*skip_special=*/false),
      splitter_(make_splitter(tokenizer, dialect, prompt)),
      stops_(std::move(stops)),
      show_(std::move(show)) {}

void AnswerStream::expect_calls(const AnswerTools& tools, ShowCall show) {
  if (tools.syntax == nullptr) return;
  const bool tokens =
      tokenizer_->find(tools.syntax->open).has_value() && tokenizer_->find(tools.syntax->close).has_value();
  calls_.emplace(*tools.syntax, tools.tools,
                 tokens ? ToolCallSplitter::Markers::as_tokens : ToolCallSplitter::Markers::in_text);
  show_call_ = std::move(show);
}

bool AnswerStream::push(int32_t id) {
  last_text_.reset();
  if (tokenizer_->is_end(id)) return !stopped();
  const bool thought = splitter_.channel() == Channel::thinking;
  const bool was_in_call = calls_ && calls_->in_call();
  const std::string_view token = tokenizer_->text(id);
  push_shown(id);
  const bool is_marker = tokenizer_->is_special(id) || token == dialect_->open || token == dialect_->close ||
                         (calls_ && calls_->is_marker(token));
  if (!is_marker && !was_in_call && !(calls_ && calls_->in_call())) last_text_ = splitter_.channel();
  thinking_tokens_ += thought || splitter_.channel() == Channel::thinking ? 1 : 0;
  return !stopped();
}

void AnswerStream::push_shown(int32_t id) {
  std::string text = detokenizer_.push(id);
  const TokenKind kind = tokenizer_->vocabulary().tokens[static_cast<size_t>(id)].kind;
  if (kind != TokenKind::control && kind != TokenKind::user_defined && kind != TokenKind::unknown)
    return push_text(text);
  // Text held back before a special token comes out first. Only the splitters see the token itself.
  const std::string token(tokenizer_->text(id));
  push_text(std::string_view(text).substr(0, text.size() - token.size()));
  push_special(id, token);
}

// Within a call a marker of thinking is text.
void AnswerStream::push_text(std::string_view text) {
  if (calls_ && calls_->in_call())
    take(calls_->push(text));
  else
    take(splitter_.push(text));
}

void AnswerStream::push_special(int32_t id, const std::string& token) {
  if (calls_ && calls_->is_marker(token)) {
    take(splitter_.flush());
    if (calls_->is_open(token) && splitter_.channel() == Channel::thinking)
      take(splitter_.push(dialect_->close, /*is_token=*/true));
    take(calls_->push(token, /*is_token=*/true));
    return;
  }
  const bool marker = token == dialect_->open || token == dialect_->close;
  if (!marker && tokenizer_->is_special(id)) return;
  if (calls_ && calls_->in_call())
    take(calls_->push(token));
  else
    take(splitter_.push(token, /*is_token=*/true));
}

void AnswerStream::finish() {
  if (stopped()) return;
  push_text(detokenizer_.flush());
  take(splitter_.flush());
  if (calls_) take(calls_->flush());
  show(Channel::answer, stops_.flush());
}

void AnswerStream::take(const std::vector<ChannelText>& texts) {
  for (const ChannelText& piece : texts)
    if (piece.channel == Channel::thinking)
      show(Channel::thinking, piece.text);
    else if (calls_)
      take(calls_->push(piece.text));
    else
      show(Channel::answer, stops_.push(piece.text));
}

// A call ends the text before it. Text that was held back, because it might begin a stop string, is therefore shown
// first.
void AnswerStream::take(std::vector<ToolPiece> pieces) {
  for (ToolPiece& piece : pieces) {
    if (const auto* text = std::get_if<std::string>(&piece)) {
      show(Channel::answer, stops_.push(*text));
    } else if (!stopped()) {
      show(Channel::answer, stops_.flush());
      show_call_(std::get<ToolCall>(std::move(piece)));
    }
  }
}

void AnswerStream::show(Channel channel, const std::string& text) {
  if (text.empty()) return;
  (channel == Channel::thinking ? thinking_ : answer_) += text;
  show_(channel, text);
}

}  // namespace sluice
