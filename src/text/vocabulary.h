// A tokenizer's vocabulary, whatever file it came from: tokens, merges, how text is cut, special ids.
//
// Read from Hugging Face's tokenizer.json (with tokenizer_config.json) or from GGUF's tokenizer.ggml.* keys, and turned
// back into those keys for the writer. Both readers check everything - ids dense and in range, texts unique, merges
// between known tokens - so that a Vocabulary can be trusted: Tokenizer's constructor cannot fail.
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
  std::string text;  // as the file spells it: of byte-level normal tokens in GPT-2's alphabet
  float score = 0;
  // What of a prompt may become this token: control and unknown only where special tokens are parsed, user-defined
  // always, others by merging.
  TokenKind kind = TokenKind::normal;
  bool special = false;  // left out where decoding skips special tokens
};

struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
  uint32_t rank = 0;  // lowest first; merges by score share ranks
};

struct Vocabulary {
  VocabularyKind kind = VocabularyKind::byte_level;
  std::vector<Token> tokens;
  TokenIndex index;  // text to id
  std::vector<Merge> merges;
  std::vector<Split> splits;   // none: text is not cut into words
  bool nfc = false;            // text is composed first
  bool ignore_merges = false;  // a word that is a token is taken whole
  bool space_prefix = false;   // text begins with a space of its own, and decoded text loses it
  bool fuse_unknown = false;   // one unknown token for a run of unknown characters
  bool add_bos = false;
  bool add_eos = false;
  std::optional<int32_t> bos, eos, unk, pad, mask, eot, eom;
  // Ids that end an answer: eos, eot, eom and tokens known by their text, ascending. Ids from generation_config.json
  // are to be added with add_end().
  std::vector<int32_t> ends;

  std::optional<int32_t> find(std::string_view text) const;
  bool has(int64_t id) const { return id >= 0 && id < static_cast<int64_t>(tokens.size()); }
  // An id that is no token is left out.
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
  // tokenizer.sluice.nfc, our own key: llama.cpp's files cannot say that text is composed first, as tokenizer.json
  // does, and llama.cpp never does it.
  std::optional<bool> nfc;
};

// `config` is tokenizer_config.json, or nullptr. Its add_bos_token and add_eos_token win over tokenizer.json's
// post_processor, as they do in transformers.
Result<Vocabulary> vocabulary_from_huggingface(const Json& tokenizer, const Json* config);
Result<Vocabulary> vocabulary_from_gguf(GgufVocabulary gguf);
// Whether its kind and pre-tokenizer are known, by `model`, `pre` and `merges` alone.
Status check_gguf_kind(const GgufVocabulary& gguf);
// `rows`: how many tokens the model's embedding has; missing ones become unused "[PAD<id>]". An error when no
// tokenizer.ggml.pre means what this vocabulary does.
Result<GgufVocabulary> to_gguf(const Vocabulary& vocabulary, int64_t rows = 0);

}  // namespace sluice
