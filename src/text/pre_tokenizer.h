// Pre-tokenizers cut text into words before byte-level vocabularies merge it.
//
// tokenizer.json has regular expressions; GGUF has a name (tokenizer.ggml.pre) for a list of them. Sluice has no
// regular-expression engine: split_patterns.cpp has a hand-written matcher for each known expression, and an unknown
// expression is an error. Each expression cuts the pieces that the expression before it made. Text between two matches
// is a piece of its own (Hugging Face's "Isolated"). Matchers follow Oniguruma, the engine of Hugging Face's
// tokenizers: \s is Unicode's White_Space, and (?i:'s) also matches the long s.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice {

enum class Split : uint8_t {
  gpt2,
  qwen2,
  qwen35,
  llama3,
  gpt4o,
  deepseek_v3,
  kana_and_han,
  han_and_hangul,
  newline,
  cased_letters,
  letters,
  fullwidth_punctuation,
  punctuation,
  trailing_space,
  marks_and_signs,
  marks_signs_and_ticks,
  digit,
  digits,
  digits_up_to_3,
  ascii_digits_3,
};

// The known expression that is spelled like `regex`, apart from control characters and needless escapes; else none.
std::optional<Split> find_split(std::string_view regex);

// A named list of expressions. `ignore_merges`: a word that is a token needs no merges. `adds_bos` counts when
// tokenizer.ggml.add_bos_token is missing.
struct PreTokenizer {
  std::string_view name;
  std::vector<Split> splits;
  bool ignore_merges = false;
  bool adds_bos = false;
};
const PreTokenizer* find_pre_tokenizer(std::string_view name);
// The first name with exactly this meaning, or nullptr.
const PreTokenizer* find_pre_tokenizer(const std::vector<Split>& splits, bool ignore_merges);

// Sets `pieces` to the pieces of `text`, in order. No piece is empty, and joined they are `text`.
void split_text(std::string_view text, const std::vector<Split>& splits, std::vector<std::string_view>& pieces);

}  // namespace sluice
