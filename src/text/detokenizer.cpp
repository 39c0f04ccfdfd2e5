#include "text/detokenizer.h"

#include "base/text.h"
#include "base/unicode.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

// The length of the longest valid beginning of a character at the start of `text`; at least 1.
size_t broken_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const size_t length = first >= 0xf0 && first <= 0xf4 ? 4 : first >= 0xe0 && first < 0xf0 ? 3 : 1;
  if (length == 1 || text.size() < 2) return 1;
  // Second bytes that would make the character over-long, a surrogate or beyond U+10FFFF.
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 1;
  return length == 4 && text.size() > 2 && (byte(2) & 0xc0) == 0x80 ? 3 : 2;
}

}  // namespace

std::string lossy_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded c = decode_utf8(text);
    const size_t length = c.bytes == 0 ? broken_length(text) : c.bytes;
    append_utf8(out, c.bytes == 0 ? kReplacement : c.code_point);
    text.remove_prefix(length);
  }
  return out;
}

std::string Detokenizer::push(int32_t id) {
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  pending_ += tokenizer_.bytes(id);
  return take(pending_.size() - incomplete_tail(pending_));
}

std::string Detokenizer::flush() {
  std::string text = take(pending_.size());
  at_start_ = true;
  return text;
}

std::string Detokenizer::take(size_t bytes) {
  std::string_view ready = std::string_view(pending_).substr(0, bytes);
  if (ready.empty()) return {};
  const Vocabulary& vocabulary = tokenizer_.vocabulary();
  if (at_start_ && vocabulary.space_prefix && ready[0] == ' ') ready.remove_prefix(1);
  at_start_ = false;
  std::string text = vocabulary.kind == VocabularyKind::byte_level ? lossy_utf8(ready) : replace_invalid_utf8(ready);
  pending_.erase(0, bytes);
  return text;
}

}  // namespace sluice
