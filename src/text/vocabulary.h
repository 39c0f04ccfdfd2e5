// A tokenizer's vocabulary from any file: tokens, merges, the rules for cutting text, special ids.
//
// It is read from Hugging Face's tokenizer.json (with tokenizer_config.json) or from GGUF's tokenizer.ggml.* keys, and
// turned back into those keys for the writer. Both readers check everything: ids are dense and in range, texts are
// unique, and merges join known tokens. So Tokenizer's constructor needs no checks and cannot fail.
// Formats: huggingface/tokenizers (tokenizer.json), llama.cpp's src/llama-vocab.cpp and conversion/ (keys, types).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/pre_tokenizer.h"
#include "text/token_index.h"

namespace sluice {

enum class VocabularyKind : uint8_t {
  sentencepiece,  // characters, spaces as U+2581, bytes as <0xNN>, ranked merges: "gemma4"
  scored,         // the same with a score per token instead of merges: "llama"
  byte_level,     // bytes written in GPT-2's alphabet of 256 printable characters, ranked merges: "gpt2"
};

// The numbers are those of tokenizer.ggml.token_type.
enum class TokenKind : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct Token {
  std::string text;  // as the file spells it; normal tokens of byte-level vocabularies in GPT-2's alphabet
  float score = 0;
  // Decides which text may become this token: control and unknown only when special tokens are parsed, user-defined
  // always, others by merging.
  TokenKind kind = TokenKind::normal;
  bool special = false;  // left out when decoding skips special tokens
};

struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
  uint32_t rank = 0;  // lowest is merged first; merges by score may share a rank
};

struct Vocabulary {
  VocabularyKind kind = VocabularyKind::byte_level;
  std::vector<Token> tokens;
  TokenIndex index;  // text to id
  std::vector<Merge> merges;
  std::vector<Split> splits;   // empty: text is not cut into words
  bool nfc = false;            // text is composed first
  bool ignore_merges = false;  // a word that is a token is not merged
  bool space_prefix = false;   // a space is added before the text and removed from decoded text
  bool fuse_unknown = false;   // one unknown token for a run of unknown characters
  bool add_bos = false;
  bool add_eos = false;
  std::optional<int32_t> bos, eos, unk, pad, mask, eot, eom;
  // Ids that end an answer, ascending: eos, eot, eom and tokens known by their text. Callers add those of
  // generation_config.json with add_end().
  std::vector<int32_t> ends;

  std::optional<int32_t> find(std::string_view text) const;
  bool has(int64_t id) const { return id >= 0 && id < static_cast<int64_t>(tokens.size()); }
  // Ignores an id that is not a token.
  void add_end(int64_t id);
};

// tokenizer.ggml.* of a GGUF file, key by key; a key the file lacks stays empty.
struct GgufVocabulary {
  std::string model;
  std::string pre;
  std::vector<std::string> tokens;
  std::vector<int32_t> token_type;
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::optional<int64_t> bos_token_id, eos_token_id, unknown_token_id, padding_token_id, mask_token_id;
  std::optional<int64_t> eot_token_id, eom_token_id, fim_pad_token_id, fim_rep_token_id, fim_sep_token_id;
  std::optional<bool> add_bos_token, add_eos_token, add_space_prefix;
  // tokenizer.sluice.nfc is Sluice's own key: text is composed first. tokenizer.json has a field for it; llama.cpp has
  // no key and never composes text.
  std::optional<bool> nfc;
};

// `config` is tokenizer_config.json, or nullptr. Its add_bos_token and add_eos_token win over the post_processor of
// tokenizer.json, as in transformers.
Result<Vocabulary> vocabulary_from_huggingface(const Json& tokenizer, const Json* config);
Result<Vocabulary> vocabulary_from_gguf(GgufVocabulary gguf);
// Checks that the kind of vocabulary and the pre-tokenizer are known. Reads `model`, `pre` and `merges` only.
Status check_gguf_kind(const GgufVocabulary& gguf);
// `rows` is the number of tokens in the model's embedding. Missing tokens become unused "[PAD<id>]". Fails if no
// tokenizer.ggml.pre cuts text as this vocabulary does.
Result<GgufVocabulary> to_gguf(const Vocabulary& vocabulary, int64_t rows = 0);

}  // namespace sluice
