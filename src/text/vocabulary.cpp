#include "text/vocabulary.h"

#include <algorithm>

#include "text/vocabulary_rules.h"

namespace sluice {
namespace {

// Tokens that end an answer even if the file's ids do not name them (llama.cpp's list).
constexpr std::string_view kEnds[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
};
// Tokens that end a turn of a chat, the likeliest first.
constexpr std::string_view kTurnEnds[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",
                                          "<turn|>",    "<EOT>",      "_<EOT>",  "[EOT]"};
constexpr std::string_view kVisibleMarkers[] = {"<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                                "<|\"|>",       "<|channel>",   "<channel|>"};

std::optional<uint32_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint32_t>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<uint32_t>(c - 'A' + 10);
  if (c >= 'a' && c <= 'f') return static_cast<uint32_t>(c - 'a' + 10);
  return std::nullopt;
}

void type_bytes(Vocabulary& vocabulary) {
  if (vocabulary.kind == VocabularyKind::byte_level) return;
  for (Token& token : vocabulary.tokens)
    if (token.kind == TokenKind::normal && byte_of(token.text)) token.kind = TokenKind::byte;
}

void find_ends(Vocabulary& vocabulary) {
  for (const std::string_view text : kEnds) {
    // In Gemma's vocabulary </s> is the tag of HTML.
    if (text == "</s>" && vocabulary.kind == VocabularyKind::sentencepiece) continue;
    if (const auto id = vocabulary.find(text)) vocabulary.add_end(*id);
  }
  for (const std::string_view text : kTurnEnds)
    if (!vocabulary.eot) vocabulary.eot = vocabulary.find(text);
  for (const auto& id : {vocabulary.eos, vocabulary.eot, vocabulary.eom})
    if (id) vocabulary.add_end(*id);
}

}  // namespace

std::optional<int32_t> Vocabulary::find(std::string_view text) const { return index.find(text, tokens); }

void Vocabulary::add_end(int64_t id) {
  if (!has(id)) return;
  Token& token = tokens[static_cast<size_t>(id)];
  token.kind = TokenKind::control;
  token.special = true;
  const auto at = std::lower_bound(ends.begin(), ends.end(), id);
  if (at == ends.end() || *at != id) ends.insert(at, static_cast<int32_t>(id));
}

Status index_tokens(Vocabulary& vocabulary, std::string_view where) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto before = vocabulary.index.insert(static_cast<int32_t>(id), vocabulary.tokens);
    if (!before) continue;
    return error(ErrorKind::corrupt, where, ": tokens ", *before, " and ", id, " are both \"",
                 printable(vocabulary.tokens[id].text), "\": want each text once");
  }
  return {};
}

Status add_merge(Vocabulary& vocabulary, std::string_view left, std::string_view right, std::string_view where) {
  const std::string both = cat(left, right);
  std::optional<int32_t> ids[3];
  const std::string_view texts[3] = {left, right, both};
  for (size_t i = 0; i < 3; ++i) {
    ids[i] = vocabulary.find(texts[i]);
    if (ids[i]) continue;
    return error(ErrorKind::corrupt, where, ": merge ", vocabulary.merges.size(), " (\"", printable(left), "\" + \"",
                 printable(right), "\") needs \"", printable(texts[i]), "\": want a token");
  }
  vocabulary.merges.push_back({*ids[0], *ids[1], *ids[2], static_cast<uint32_t>(vocabulary.merges.size())});
  return {};
}

Status add_merge(Vocabulary& vocabulary, std::string_view pair, std::string_view where) {
  const size_t space = pair.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == pair.size()) {
    return error(ErrorKind::corrupt, where, ": merge ", vocabulary.merges.size(), " is \"", printable(pair),
                 "\": want two tokens and a space between them");
  }
  return add_merge(vocabulary, pair.substr(0, space), pair.substr(space + 1), where);
}

std::optional<uint8_t> byte_of(std::string_view text) {
  if (text.size() != 6 || !starts_with(text, "<0x") || text.back() != '>') return std::nullopt;
  const auto high = hex_digit(text[3]);
  const auto low = hex_digit(text[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<uint8_t>(*high * 16 + *low);
}

bool is_visible_marker(std::string_view text) {
  return std::find(std::begin(kVisibleMarkers), std::end(kVisibleMarkers), text) != std::end(kVisibleMarkers);
}

void complete(Vocabulary& vocabulary) {
  type_bytes(vocabulary);
  find_ends(vocabulary);
}

}  // namespace sluice
