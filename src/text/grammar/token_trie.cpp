#include "text/grammar/token_trie.h"

#include <algorithm>

#include "base/unicode.h"
#include "text/grammar/markers.h"

namespace sluice {
namespace {

constexpr size_t kMaxTokenBytes = 4096;  // a longer token is never allowed

// The number of characters; 0 if they are not all plain.
uint32_t plain_characters(std::string_view bytes) {
  uint32_t count = 0;
  for (; !bytes.empty(); ++count) {
    const Decoded one = decode_utf8(bytes);
    if (one.bytes == 0 || !is_plain(one.code_point) || count == TokenTrie::kMostPlain) return 0;
    bytes.remove_prefix(one.bytes);
  }
  return count;
}

bool is_text(const Tokenizer& tokenizer, int32_t id) {
  const TokenKind kind = tokenizer.vocabulary().tokens[static_cast<size_t>(id)].kind;
  if (kind == TokenKind::control || kind == TokenKind::unknown || kind == TokenKind::unused) return false;
  const std::string_view bytes = tokenizer.bytes(id);
  return !tokenizer.is_special(id) && !tokenizer.is_end(id) && !bytes.empty() && bytes.size() <= kMaxTokenBytes &&
         bytes.find(static_cast<char>(kMarkerByte)) == std::string_view::npos;
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : words_((static_cast<size_t>(tokenizer.size()) + 31) / 32) {
  plain_sets_.assign(kMostPlain, TokenBits(words_));
  std::vector<int32_t> plain, others;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    if (!is_text(tokenizer, id)) continue;
    const uint32_t characters = plain_characters(tokenizer.bytes(id));
    (characters > 0 ? plain : others).push_back(id);
    if (characters > 0) set_bit(plain_sets_[characters - 1], id);
  }
  for (size_t i = 1; i < kMostPlain; ++i)
    for (size_t word = 0; word < words_; ++word) plain_sets_[i][word] |= plain_sets_[i - 1][word];
  plain_ = build(tokenizer, std::move(plain));
  others_ = build(tokenizer, std::move(others));
}

std::vector<TokenTrie::Node> TokenTrie::build(const Tokenizer& tokenizer, std::vector<int32_t> tokens) {
  std::ranges::sort(tokens, [&](int32_t a, int32_t b) {
    const int order = tokenizer.bytes(a).compare(tokenizer.bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<Node> nodes;
  std::vector<uint32_t> path;  // the node at each depth of the last token
  std::string_view last;
  for (const int32_t token : tokens) {
    const std::string_view bytes = tokenizer.bytes(token);
    if (bytes == last) {
      twins_.emplace_back(nodes[path.back()].token, token);
      continue;
    }
    const auto shared = static_cast<size_t>(std::ranges::mismatch(bytes, last).in1 - bytes.begin());
    for (; path.size() > shared; path.pop_back()) nodes[path.back()].behind = static_cast<uint32_t>(nodes.size());
    for (size_t depth = shared; depth < bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes.size()));
      nodes.push_back({-1, 0, static_cast<uint8_t>(bytes[depth]), static_cast<uint16_t>(depth)});
    }
    nodes.back().token = token;
    depth_ = std::max(depth_, static_cast<uint32_t>(bytes.size()));
    last = bytes;
  }
  for (; !path.empty(); path.pop_back()) nodes[path.back()].behind = static_cast<uint32_t>(nodes.size());
  return nodes;
}

}  // namespace sluice
