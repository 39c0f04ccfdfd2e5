#include "text/tokenizer.h"

#include <algorithm>
#include <functional>

#include "base/unicode.h"
#include "text/detokenizer.h"
#include "text/vocabulary_rules.h"

namespace sluice {
namespace {

// The bytes of a token in GPT-2's alphabet; a text with other characters stands for itself.
void append_alphabet_bytes(std::string_view text, std::string& out) {
  const size_t before = out.size();
  for (std::string_view rest = text; !rest.empty();) {
    const Decoded c = decode_utf8(rest);
    const int32_t byte = c.bytes == 0 ? -1 : alphabet_byte(c.code_point);
    if (byte < 0) {
      out.resize(before);
      out += text;
      return;
    }
    out += static_cast<char>(byte);
    rest.remove_prefix(c.bytes);
  }
}

void append_with_spaces(std::string_view text, std::string& out) {
  for (size_t mark; (mark = text.find(kSpaceMark)) != std::string_view::npos;) {
    out += text.substr(0, mark);
    out += ' ';
    text.remove_prefix(mark + kSpaceMark.size());
  }
  out += text;
}

bool is_written_out(const Token& token) {  // not in the byte-level alphabet
  return token.kind == TokenKind::control || token.kind == TokenKind::user_defined;
}

// Nothing below U+0300 combines or decomposes further, so such text is composed already.
bool is_composed(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xcc; });
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)), bpe_(vocabulary_) {
  learn_pieces();
  learn_special_lengths();
}

void Tokenizer::learn_pieces() {
  piece_begins_.reserve(vocabulary_.tokens.size() + 1);
  for (const Token& token : vocabulary_.tokens) {
    piece_begins_.push_back(pieces_.size());
    if (token.kind == TokenKind::byte)
      pieces_ += static_cast<char>(*byte_of(token.text));
    else if (vocabulary_.kind != VocabularyKind::byte_level)
      append_with_spaces(token.text, pieces_);
    else if (is_written_out(token))
      pieces_ += token.text;
    else
      append_alphabet_bytes(token.text, pieces_);
  }
  piece_begins_.push_back(pieces_.size());
}

void Tokenizer::learn_special_lengths() {
  for (const Token& token : vocabulary_.tokens) {
    const bool searched = is_written_out(token) || token.kind == TokenKind::unknown;
    if (!searched || token.text.empty()) continue;
    special_lengths_[static_cast<unsigned char>(token.text[0])].push_back(token.text.size());
  }
  for (auto& lengths : special_lengths_) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
}

Tokenizer::Found Tokenizer::find_special(std::string_view text, size_t from, bool parse_special) const {
  for (size_t at = from; at < text.size(); ++at) {
    for (const size_t length : special_lengths_[static_cast<unsigned char>(text[at])]) {
      if (length > text.size() - at) continue;
      const auto id = vocabulary_.find(text.substr(at, length));
      if (!id) continue;
      const TokenKind kind = vocabulary_.tokens[static_cast<size_t>(*id)].kind;
      const bool control = kind == TokenKind::control || kind == TokenKind::unknown;
      if (kind == TokenKind::user_defined || (control && parse_special)) return {at, length, *id};
    }
  }
  return {text.size(), 0, -1};
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  if (options.add_special && vocabulary_.add_bos) ids.push_back(*vocabulary_.bos);
  for (size_t at = 0; at < text.size();) {
    const Found special = find_special(text, at, options.parse_special);
    encode_guarded(text.substr(at, special.at - at), options.guard, ids);
    if (special.id >= 0) ids.push_back(special.id);
    at = special.at + special.bytes;
  }
  if (options.add_special && vocabulary_.add_eos) ids.push_back(*vocabulary_.eos);
  return ids;
}

// Whether the text begins with a token that only a template may write.
bool Tokenizer::spells_special(std::string_view text, std::span<const std::string_view> markers) const {
  const auto begins = [&](std::string_view marker) { return !marker.empty() && starts_with(text, marker); };
  if (std::ranges::any_of(markers, begins)) return true;
  for (const size_t length : special_lengths_[static_cast<unsigned char>(text[0])]) {
    const auto id = length > text.size() ? std::nullopt : vocabulary_.find(text.substr(0, length));
    if (!id) continue;
    const Token& token = vocabulary_.tokens[static_cast<size_t>(*id)];
    if (token.special || token.kind == TokenKind::control || token.kind == TokenKind::unknown) return true;
  }
  return false;
}

std::string Tokenizer::guard(std::string_view text, std::string_view mark,
                             std::span<const std::string_view> markers) const {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = std::max<size_t>(decode_utf8(text.substr(at)).bytes, 1);
    out += text.substr(at, bytes);
    if (spells_special(text.substr(at), markers)) out += mark;
    at += bytes;
  }
  return out;
}

std::string without_guard(std::string_view text, std::string_view mark) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(mark, at), text.size());
    out += text.substr(at, end - at);
    at = end + mark.size();
  }
  return out;
}

void Tokenizer::encode_guarded(std::string_view text, std::string_view guard, std::vector<int32_t>& ids) const {
  if (guard.empty() || text.find(guard) == std::string_view::npos) return encode_plain(text, ids);
  encode_plain(without_guard(text, guard), ids);
}

void Tokenizer::encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  std::string changed;
  if (vocabulary_.nfc && !is_composed(text)) text = changed = to_nfc(text);
  if (vocabulary_.space_prefix) text = changed = cat(' ', text);
  if (vocabulary_.splits.empty()) {
    bpe_.encode(text, ids);
    return;
  }
  std::vector<std::string_view> words;
  split_text(text, vocabulary_.splits, words);
  for (const std::string_view word : words) encode_word(word, ids);
}

void Tokenizer::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (vocabulary_.ignore_merges) {
    std::string spelled;
    for (const char c : word) append_utf8(spelled, alphabet_character(static_cast<uint8_t>(c)));
    const auto id = vocabulary_.find(spelled);
    if (id && vocabulary_.tokens[static_cast<size_t>(*id)].kind == TokenKind::normal) {
      ids.push_back(*id);
      return;
    }
  }
  bpe_.encode(word, ids);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  if (vocabulary_.kind != VocabularyKind::byte_level) return decode_characters(ids, skip_special);
  std::string out;
  for (const int32_t id : ids)
    if (!(skip_special && is_special(id))) out += bytes(id);
  return lossy_utf8(out);
}

// A run of byte tokens is text when all of it is UTF-8, else one U+FFFD per byte.
std::string Tokenizer::decode_characters(std::span<const int32_t> ids, bool skip_special) const {
  std::string out;
  std::string run;
  const auto end_run = [&] {
    if (is_utf8(run))
      out += run;
    else
      for (size_t i = 0; i < run.size(); ++i) append_utf8(out, kReplacement);
    run.clear();
  };
  for (const int32_t id : ids) {
    if (!vocabulary_.has(id) || (skip_special && is_special(id))) continue;
    if (is_byte(id)) {
      run += bytes(id);
      continue;
    }
    end_run();
    out += bytes(id);
  }
  end_run();
  if (vocabulary_.space_prefix && starts_with(out, " ")) out.erase(0, 1);
  return out;
}

std::string_view Tokenizer::text(int32_t id) const {
  return vocabulary_.has(id) ? std::string_view(vocabulary_.tokens[static_cast<size_t>(id)].text) : std::string_view();
}

std::string_view Tokenizer::bytes(int32_t id) const {
  if (!vocabulary_.has(id)) return {};
  const auto i = static_cast<size_t>(id);
  return std::string_view(pieces_).substr(piece_begins_[i], piece_begins_[i + 1] - piece_begins_[i]);
}

bool Tokenizer::is_end(int32_t id) const {
  return std::binary_search(vocabulary_.ends.begin(), vocabulary_.ends.end(), id);
}
bool Tokenizer::is_special(int32_t id) const {
  return vocabulary_.has(id) && vocabulary_.tokens[static_cast<size_t>(id)].special;
}
bool Tokenizer::is_byte(int32_t id) const {
  return vocabulary_.has(id) && vocabulary_.tokens[static_cast<size_t>(id)].kind == TokenKind::byte;
}

}  // namespace sluice
