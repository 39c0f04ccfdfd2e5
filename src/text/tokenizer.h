// Tokenizer: text to ids and back, over a Vocabulary.
//
// Ids are those of Hugging Face's tokenizers. Special tokens are found first: the leftmost, and the longest at one
// place. The text between them is composed (if the vocabulary requires it), cut into words and merged. Text that is not
// UTF-8 is encoded byte by byte, so nothing is lost. Immutable after construction, so threads may share it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"
#include "text/vocabulary.h"

namespace sluice {

struct EncodeOptions {
  bool add_special = false;  // adds <bos> and <eos>, if the vocabulary does
  // Control tokens written in the text become tokens. Set it for rendered chat templates, never for text that a
  // stranger typed.
  bool parse_special = true;
  // A character that guard() has put into the text. It is left out, and what it has broken up is no token. "": none.
  std::string_view guard = {};
};

// `text` without a mark that Tokenizer::guard() has put into it.
std::string without_guard(std::string_view text, std::string_view mark);

class Tokenizer {
 public:
  explicit Tokenizer(Vocabulary vocabulary);

  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;
  // A stranger's text for a chat template: `mark`, a character that the text lacks, breaks up everything that spells a
  // control or special token or one of `markers`. Encode the rendered text with the mark as EncodeOptions::guard.
  std::string guard(std::string_view text, std::string_view mark, std::span<const std::string_view> markers) const;
  // Decodes all ids at once, exactly as Hugging Face does. Unknown ids are left out. For a stream use Detokenizer.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t size() const { return static_cast<int32_t>(vocabulary_.tokens.size()); }
  std::optional<int32_t> find(std::string_view text) const { return vocabulary_.find(text); }
  // The token as the vocabulary spells it, and the bytes that it stands for; empty for an unknown id.
  std::string_view text(int32_t id) const;
  std::string_view bytes(int32_t id) const;

  std::optional<int32_t> bos() const { return vocabulary_.bos; }
  std::optional<int32_t> eos() const { return vocabulary_.eos; }
  std::optional<int32_t> eot() const { return vocabulary_.eot; }
  const std::vector<int32_t>& ends() const { return vocabulary_.ends; }
  bool is_end(int32_t id) const;
  bool is_special(int32_t id) const;
  // One byte of a character that has no token of its own.
  bool is_byte(int32_t id) const;

 private:
  struct Found {
    size_t at;  // the text's size: none
    size_t bytes;
    int32_t id;
  };
  void learn_pieces();
  void learn_special_lengths();
  Found find_special(std::string_view text, size_t from, bool parse_special) const;
  bool spells_special(std::string_view text, std::span<const std::string_view> markers) const;
  void encode_guarded(std::string_view text, std::string_view guard, std::vector<int32_t>& ids) const;
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const;
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;
  std::string decode_characters(std::span<const int32_t> ids, bool skip_special) const;

  Vocabulary vocabulary_;
  Bpe bpe_;
  std::string pieces_;  // the bytes of all tokens, one after another
  std::vector<size_t> piece_begins_;
  // By first byte: the lengths of the tokens to search for, longest first.
  std::array<std::vector<size_t>, 256> special_lengths_;
};

}  // namespace sluice
