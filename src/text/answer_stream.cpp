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

bool AnswerStream::push(int32_t id) {
  if (tokenizer_->is_end(id)) return !stopped();
  std::string text = detokenizer_.push(id);
  const TokenKind kind = tokenizer_->vocabulary().tokens[static_cast<size_t>(id)].kind;
  if (kind != TokenKind::control && kind != TokenKind::user_defined && kind != TokenKind::unknown) {
    take(splitter_.push(text));
    return !stopped();
  }
  // Text held back before a special token comes out first. Only the splitter sees the token itself.
  const std::string token(tokenizer_->text(id));
  take(splitter_.push(std::string_view(text).substr(0, text.size() - token.size())));
  const bool marker = token == dialect_->open || token == dialect_->close;
  if (marker || !tokenizer_->is_special(id)) take(splitter_.push(token, /*is_token=*/true));
  return !stopped();
}

void AnswerStream::finish() {
  if (stopped()) return;
  take(splitter_.push(detokenizer_.flush()));
  take(splitter_.flush());
  show(Channel::answer, stops_.flush());
}

void AnswerStream::take(const std::vector<ChannelText>& texts) {
  for (const ChannelText& piece : texts)
    if (piece.channel == Channel::thinking)
      show(Channel::thinking, piece.text);
    else
      show(Channel::answer, stops_.push(piece.text));
}

void AnswerStream::show(Channel channel, const std::string& text) {
  if (text.empty()) return;
  (channel == Channel::thinking ? thinking_ : answer_) += text;
  show_(channel, text);
}

}  // namespace sluice
