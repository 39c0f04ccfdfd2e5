// The tokenizers of GGUF files, by tokenizer.ggml.model: the kind of vocabulary, and how its files differ from others
// of that kind. Pre-tokenizers have a table of their own (pre_tokenizer.h).
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/vocabulary.h"

namespace sluice {

struct GgufTokenizer {
  std::string_view model{};
  std::string_view pre{};      // tokenizer.ggml.pre in files that Sluice writes
  bool with_that_pre = false;  // only files with that `pre` have this tokenizer
  bool with_merges = false;    // only files with merges have this tokenizer
  VocabularyKind kind{};       //
  bool forces_bos = false;     // <bos> is added even if tokenizer.ggml.add_bos_token is false
  bool shows_markers = false;  // files declare markers as plain text; here they become markers
  bool writes_scores = false;  // files have scores, although merges need none
};

// The tokenizer of a file. Fails with `unsupported` if none fits.
Result<const GgufTokenizer*> find_gguf_tokenizer(const GgufVocabulary& gguf);
// The tokenizer as which a vocabulary of this kind is written.
const GgufTokenizer& gguf_tokenizer(VocabularyKind kind);

}  // namespace sluice
