#include "serve/answer_writer.h"

#include "base/text.h"

namespace sluice {
namespace {

void add_text(std::vector<AnswerPiece>& pieces, AnswerPiece::Kind kind, const std::string& text) {
  if (pieces.empty() || pieces.back().kind != kind) pieces.push_back({.kind = kind, .text = {}});
  pieces.back().text += text;
}

std::string joined(const std::vector<AnswerPiece>& pieces, AnswerPiece::Kind kind) {
  std::string all;
  for (const AnswerPiece& piece : pieces)
    if (piece.kind == kind) all += piece.text;
  return all;
}

}  // namespace

void AnsweredPart::take(const AnswerNews& news) {
  const auto show_held = [this] {
    log_probs.insert(log_probs.end(), std::make_move_iterator(held.begin()), std::make_move_iterator(held.end()));
    held.clear();
  };
  for (const TurnEvent& event : news.events) {
    if (const auto* one = std::get_if<LogProbEvent>(&event)) held.push_back(one->token);
    if (std::holds_alternative<TextEvent>(event) || std::holds_alternative<ThinkingEvent>(event)) show_held();
    if (const auto* text = std::get_if<TextEvent>(&event)) add_text(pieces, AnswerPiece::Kind::text, text->text);
    if (const auto* text = std::get_if<ThinkingEvent>(&event))
      add_text(pieces, AnswerPiece::Kind::thinking, text->text);
    if (const auto* called = std::get_if<ToolCallEvent>(&event)) {
      pieces.push_back({.kind = AnswerPiece::Kind::call, .text = {}, .call = called->call});
      ++calls;
    }
    if (const auto* end = std::get_if<DoneEvent>(&event)) {
      done = *end;
      if (!end->stop) show_held();  // a stop string is never shown
    }
    if (!pieces.empty()) pieces.back().log_probs_end = log_probs.size();
  }
}

std::string AnsweredPart::text() const { return joined(pieces, AnswerPiece::Kind::text); }
std::string AnsweredPart::thinking() const { return joined(pieces, AnswerPiece::Kind::thinking); }

std::span<const TokenLogProb> AnsweredPart::log_probs_of(size_t piece) const {
  const size_t begin = piece == 0 ? 0 : pieces[piece - 1].log_probs_end;
  return std::span(log_probs).subspan(begin, pieces[piece].log_probs_end - begin);
}

Usage total_usage(const std::vector<AnsweredPart>& parts, uint32_t choices) {
  Usage total;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Usage& one = parts[i].done.usage;
    if (i % choices == 0) {
      total.prompt_tokens += one.prompt_tokens;
      total.reused_tokens += one.reused_tokens;
    }
    total.answer_tokens += one.answer_tokens;
    total.thinking_tokens += one.thinking_tokens;
    total.prompt_seconds += one.prompt_seconds;
    total.answer_seconds += one.answer_seconds;
  }
  return total;
}

std::string AnswerWriter::comment(const std::string& line) const { return cat(": ", line, "\n\n"); }

std::string sse_text(const Json& data) { return cat("data: ", write_json(data), "\n\n"); }
std::string sse_text(std::string_view event, const Json& data) {
  return cat("event: ", event, "\ndata: ", write_json(data), "\n\n");
}

}  // namespace sluice
