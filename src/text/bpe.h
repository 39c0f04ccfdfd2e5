// Byte-pair encoding (Sennrich et al., arXiv:1508.07909). Text becomes symbols. Then the pair of lowest rank is merged,
// the leftmost on ties, until no pair is left; the order is that of huggingface/tokenizers' models/bpe/word.rs.
//
// Gemma's vocabulary has no words, so a prompt is one run of symbols. The run is cut between two symbols if no merge
// joins a token that ends in the first symbol to a token that begins with the second. The cuts change no id and leave
// pieces of word size. Short pieces merge by scanning, long ones with a heap in n log n. Immutable after construction.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/flat_map.h"
#include "text/vocabulary.h"

namespace sluice {

// The bytes in GPT-2's alphabet: printable characters stand for themselves, the others for U+0100 and on.
uint32_t alphabet_character(uint8_t byte);
// The byte that a character of that alphabet stands for; -1 for other characters.
int32_t alphabet_byte(uint32_t code_point);

class Bpe {
 public:
  explicit Bpe(const Vocabulary& vocabulary);

  // Appends the ids of `text`. The text has no special tokens and is not cut into words here.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Pair {
    uint32_t rank = 0;
    int32_t result = 0;
  };
  class Ends;

  const Pair* find(int32_t left, int32_t right) const;
  void learn_characters(const Vocabulary& vocabulary);
  void learn_joints(const Vocabulary& vocabulary);
  bool may_join(int32_t left, int32_t right) const;
  static size_t joint_bit(int32_t left, int32_t right);

  void bytes_to_symbols(std::string_view text, std::vector<int32_t>& symbols) const;
  void characters_to_symbols(std::string_view text, std::vector<int32_t>& symbols) const;
  void unknown_to_symbols(std::string_view character, size_t begin, std::vector<int32_t>& symbols) const;
  // These write the merged ids and return their number. `ids` may be the memory of the symbols.
  size_t merge(const int32_t* symbols, size_t count, int32_t* ids) const;
  size_t merge_short(const int32_t* symbols, size_t count, int32_t* ids) const;
  size_t merge_long(const int32_t* symbols, size_t count, int32_t* ids) const;

  bool byte_level_ = false;
  bool fuse_unknown_ = false;
  int32_t unknown_ = -1;
  std::array<int32_t, 256> byte_symbols_{};   // the symbol of a byte: byte-level, or <0xNN>; -1: none
  std::array<int32_t, 128> ascii_symbols_{};  // -1: none
  FlatMap<int32_t> character_symbols_;        // by code point, beyond ASCII
  FlatMap<Pair> pairs_;                       // by left and right id
  std::vector<uint64_t> joints_;              // a bit per hash of (left, right); empty: every pair may join
};

}  // namespace sluice
