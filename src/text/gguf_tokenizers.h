// The tokenizers of GGUF files, by tokenizer.ggml.model: which kind of vocabulary each is, and where its files differ
// from others of that kind. Pre-tokenizers have a table of their own (pre_tokenizer.h).
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/vocabulary.h"

namespace sluice {

struct GgufTokenizer {
  std::string_view model{};
  std::string_view pre{};      // tokenizer.ggml.pre, as it is written
  bool with_that_pre = false;  // only files with that pre are this tokenizer's
  bool with_merges = false;    // only files with merges are
  VocabularyKind kind{};       //
  bool forces_bos = false;     // even where tokenizer.ggml.add_bos_token denies it
  bool shows_markers = false;  // files type markers as plain text; here they are markers
  bool writes_scores = false;  // files have scores, though merges need none
};

// The one that wrote the file. unsupported: none.
Result<const GgufTokenizer*> find_gguf_tokenizer(const GgufVocabulary& gguf);
// The one that such a vocabulary is written as.
const GgufTokenizer& gguf_tokenizer(VocabularyKind kind);

}  // namespace sluice
