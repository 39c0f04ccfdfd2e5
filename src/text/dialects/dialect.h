// How thinking is marked in a model's text, by the name of the dialect. Sources: the chat templates of Gemma 4, Qwen3.5
// and DeepSeek-R1/V3.1.
//
//   gemma4   <|channel>thought\n ... <channel|>answer
//   think    <think>\n ... \n</think>\n\nanswer       (Qwen, DeepSeek and most others)
//   plain    answer
#pragma once

#include <span>
#include <string_view>

namespace sluice {

struct ChatDialect {
  std::string_view name;
  std::string_view open;    // before a thought; empty when the model does not think
  std::string_view close;   // after it
  std::string_view header;  // follows `open` and does not belong to the thought
  bool own_lines = false;   // newlines around `close` belong neither to the thought nor to the answer
};

// "plain" is the last one.
std::span<const ChatDialect> dialects();
// nullptr for an unknown name.
const ChatDialect* find_dialect(std::string_view name);

// Finds the dialect by the markers in the chat template, else by the tokens in the vocabulary: `has_token(text)` tells
// whether it has a token. "plain" if neither has markers.
template <class HasToken>
const ChatDialect& detect_dialect(std::string_view template_text, HasToken has_token) {
  for (const ChatDialect& dialect : dialects())
    if (!dialect.open.empty() && template_text.find(dialect.close) != std::string_view::npos) return dialect;
  for (const ChatDialect& dialect : dialects())
    if (!dialect.open.empty() && has_token(dialect.open) && has_token(dialect.close)) return dialect;
  return dialects().back();
}

// Whether the prompt ends inside an open thought, so that the answer begins with thinking: Qwen's "<think>\n".
bool starts_thinking(const ChatDialect& dialect, std::string_view prompt);

}  // namespace sluice
