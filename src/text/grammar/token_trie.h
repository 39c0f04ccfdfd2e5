// TokenTrie: the bytes of a vocabulary's tokens as a tree, for finding the tokens that a grammar allows.
//
// Tokens of plain text only (characters that stand for themselves in a JSON string) are a tree of their own, and are
// also kept as bit sets by their number of characters: a state that takes any plain text takes a whole set at once.
// Control tokens are in neither tree, and neither are bytes that only markers have (markers.h). Immutable: answers
// share it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace sluice {

// Bit i of word i / 32 is token i.
using TokenBits = std::vector<uint32_t>;
inline void put_bit(TokenBits& bits, int32_t token, bool value) {
  const uint32_t bit = uint32_t{1} << (token % 32);
  uint32_t& word = bits[static_cast<size_t>(token) / 32];
  word = value ? word | bit : word & ~bit;
}
inline void set_bit(TokenBits& bits, int32_t token) { put_bit(bits, token, true); }
inline bool has_bit(std::span<const uint32_t> bits, int32_t token) {
  return (bits[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

class TokenTrie {
 public:
  static constexpr uint32_t kMostPlain = 32;  // characters; longer tokens are not plain

  // Nodes in depth-first order, without the root.
  struct Node {
    int32_t token;    // that ends here; -1: none
    uint32_t behind;  // the index behind all nodes below
    uint8_t byte;
    uint16_t depth;  // from 0
  };

  explicit TokenTrie(const Tokenizer& tokenizer);

  size_t words() const { return words_; }  // of a bit set
  std::span<const Node> plain() const { return plain_; }
  std::span<const Node> others() const { return others_; }
  uint32_t depth() const { return depth_; }  // the most of a node, and one more
  // Plain tokens of at most `characters`, 1 to kMostPlain.
  const TokenBits& plain_up_to(uint32_t characters) const { return plain_sets_[characters - 1]; }
  // Tokens with the same bytes as another one: (the one that is in the tree, the other).
  std::span<const std::pair<int32_t, int32_t>> twins() const { return twins_; }

 private:
  std::vector<Node> build(const Tokenizer& tokenizer, std::vector<int32_t> tokens);

  size_t words_;
  std::vector<Node> plain_, others_;
  uint32_t depth_ = 0;
  std::vector<TokenBits> plain_sets_;
  std::vector<std::pair<int32_t, int32_t>> twins_;
};

// Whether the code point may stand for itself within a JSON string.
constexpr bool is_plain(uint32_t code_point) { return code_point >= 0x20 && code_point != '"' && code_point != '\\'; }

}  // namespace sluice
