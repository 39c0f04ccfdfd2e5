#include "text/gguf_tokenizers.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace sluice {
namespace {

// The first entry of a kind is the one that Sluice writes.
constexpr GgufTokenizer kTokenizers[] = {
    {.model = "gpt2", .kind = VocabularyKind::byte_level},
    {.model = "gemma4",
     .pre = "gemma4",
     .kind = VocabularyKind::sentencepiece,
     .forces_bos = true,
     .shows_markers = true,
     .writes_scores = true},
    // The tokenizer above in Ollama's files.
    {.model = "llama",
     .pre = "gemma4",
     .with_that_pre = true,
     .with_merges = true,
     .kind = VocabularyKind::sentencepiece,
     .forces_bos = true,
     .shows_markers = true},
    {.model = "llama", .pre = "default", .kind = VocabularyKind::scored},
};

// "a, b or c"
std::string models() {
  std::vector<std::string_view> names;
  for (const GgufTokenizer& one : kTokenizers)
    if (std::ranges::find(names, one.model) == names.end()) names.push_back(one.model);
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) list += cat(i == 0 ? "" : i + 1 < names.size() ? ", " : " or ", names[i]);
  return list;
}

}  // namespace

Result<const GgufTokenizer*> find_gguf_tokenizer(const GgufVocabulary& gguf) {
  for (const GgufTokenizer& one : kTokenizers)
    if (gguf.model == one.model && (!one.with_that_pre || gguf.pre == one.pre) &&
        (!one.with_merges || !gguf.merges.empty()))
      return &one;
  return error(ErrorKind::unsupported, "tokenizer.ggml.model is \"", printable(gguf.model), "\": want ", models());
}

const GgufTokenizer& gguf_tokenizer(VocabularyKind kind) {
  return *std::ranges::find(kTokenizers, kind, &GgufTokenizer::kind);
}

}  // namespace sluice
