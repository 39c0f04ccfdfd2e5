#include "text/pre_tokenizer.h"

#include <string>

#include "text/split_patterns.h"

namespace sluice {
namespace {

// Names and their meaning: llama.cpp's src/llama-vocab.cpp.
const std::vector<PreTokenizer>& table() {
  using enum Split;
  static const std::vector<Split> deepseek_llm = {newline,        cased_letters,  fullwidth_punctuation,
                                                  trailing_space, han_and_hangul, digits};
  static const std::vector<Split> deepseek_coder = {newline, letters, punctuation, han_and_hangul, digit};
  static const std::vector<Split> falcon = {marks_signs_and_ticks, gpt2, ascii_digits_3};
  static const std::vector<Split> unnamed = {marks_and_signs, gpt2, digits, ascii_digits_3};
  static const std::vector<PreTokenizer> rows = {
      {.name = "qwen35", .splits = {qwen35}},
      {.name = "qwen2", .splits = {qwen2}},
      {.name = "deepseek-r1-qwen", .splits = {qwen2}},
      {.name = "deepseek-v3", .splits = {digits_up_to_3, kana_and_han, deepseek_v3}},
      {.name = "deepseek-llm", .splits = deepseek_llm},
      {.name = "deepseek-coder", .splits = deepseek_coder},
      {.name = "llama-bpe", .splits = {llama3}, .ignore_merges = true, .adds_bos = true},
      {.name = "gpt-4o", .splits = {gpt4o}},
      {.name = "gpt-2", .splits = {gpt2}},
      {.name = "mpt", .splits = {gpt2}},
      {.name = "starcoder", .splits = {digit, gpt2}},
      {.name = "refact", .splits = {digit, gpt2}},
      {.name = "command-r", .splits = {digit, gpt2}},
      {.name = "falcon", .splits = falcon},
      {.name = "default", .splits = unnamed},
  };
  return rows;
}

// The spelling of an expression in the table: control characters as \r and \n, quotation marks without a backslash.
std::string canonical(std::string_view regex) {
  std::string out;
  for (size_t i = 0; i < regex.size(); ++i) {
    if (regex[i] == '\r') {
      out += "\\r";
    } else if (regex[i] == '\n') {
      out += "\\n";
    } else if (regex[i] == '\\' && i + 1 < regex.size()) {
      if (regex[i + 1] != '"') out += regex[i];
      out += regex[++i];
    } else {
      out += regex[i];
    }
  }
  return out;
}

void split_piece(std::string_view text, const SplitPattern& pattern, std::vector<std::string_view>& pieces) {
  size_t at = 0;
  while (at < text.size()) {
    const Match match = pattern.find(text, at);
    const bool found = match.end > match.begin;
    const size_t gap_end = found ? match.begin : text.size();
    if (gap_end > at) pieces.push_back(text.substr(at, gap_end - at));
    if (!found) return;
    pieces.push_back(text.substr(match.begin, match.end - match.begin));
    at = match.end;
  }
}

}  // namespace

std::optional<Split> find_split(std::string_view regex) {
  const SplitPattern* pattern = find_split_pattern(canonical(regex));
  return pattern == nullptr ? std::nullopt : std::optional(pattern->split);
}

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizer& row : table())
    if (row.name == name) return &row;
  return nullptr;
}

const PreTokenizer* find_pre_tokenizer(const std::vector<Split>& splits, bool ignore_merges) {
  for (const PreTokenizer& row : table())
    if (row.splits == splits && row.ignore_merges == ignore_merges) return &row;
  return nullptr;
}

void split_text(std::string_view text, const std::vector<Split>& splits, std::vector<std::string_view>& pieces) {
  pieces.clear();
  if (text.empty()) return;
  pieces.push_back(text);
  std::vector<std::string_view> before;
  for (const Split split : splits) {
    before.swap(pieces);
    pieces.clear();
    const SplitPattern& pattern = split_pattern(split);
    for (const std::string_view piece : before) split_piece(piece, pattern, pieces);
  }
}

}  // namespace sluice
