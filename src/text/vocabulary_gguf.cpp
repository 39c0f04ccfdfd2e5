// Vocabularies from tokenizer.ggml.* and back. Keys, defaults and token types: llama.cpp's src/llama-vocab.cpp.
#include <algorithm>
#include <functional>
#include <limits>

#include "base/limits.h"
#include "text/gguf_tokenizers.h"
#include "text/vocabulary.h"
#include "text/vocabulary_rules.h"

namespace sluice {
namespace {

Status check_length(std::string_view key, size_t found, size_t want, bool optional) {
  if (found == want || (optional && found == 0)) return {};
  return error(ErrorKind::corrupt, "tokenizer.ggml.", key, " has ", found, " entries: want ", want, ", one per token");
}

Status read_tokens(GgufVocabulary& gguf, Vocabulary& vocabulary) {
  const size_t count = gguf.tokens.size();
  if (count == 0 || count > kMaxVocabulary)
    return error(ErrorKind::corrupt, "tokenizer.ggml.tokens has ", count, " entries: want 1 to ", kMaxVocabulary);
  TRY_STATUS(check_length("token_type", gguf.token_type.size(), count, true));
  TRY_STATUS(check_length("scores", gguf.scores.size(), count, vocabulary.kind != VocabularyKind::scored));
  vocabulary.tokens.resize(count);
  for (size_t id = 0; id < count; ++id) {
    Token& token = vocabulary.tokens[id];
    token.text = std::move(gguf.tokens[id]);
    if (token.text.empty()) token.text = cat("[EMPTY_", id, "]");
    if (!gguf.scores.empty()) token.score = gguf.scores[id];
    const int32_t type = gguf.token_type.empty() ? 1 : gguf.token_type[id];
    if (type < 1 || type > 6)
      return error(ErrorKind::corrupt, "tokenizer.ggml.token_type of token ", id, " is ", type, ": want 1 to 6");
    token.kind = static_cast<TokenKind>(type);
    token.special = token.kind == TokenKind::control || token.kind == TokenKind::unknown;
    if (token.kind == TokenKind::byte && !byte_of(token.text)) {
      return error(ErrorKind::corrupt, "tokenizer.ggml.tokens: token ", id, " of type byte is \"",
                   printable(token.text), "\": want <0x00> to <0xFF>");
    }
  }
  return index_tokens(vocabulary, "tokenizer.ggml.tokens");
}

Result<std::optional<int32_t>> read_id(const Vocabulary& vocabulary, std::string_view key, std::optional<int64_t> id) {
  // Some writers store -1 as an unsigned number if there is no such token.
  if (!id || *id == -1 || *id == std::numeric_limits<uint32_t>::max()) return std::optional<int32_t>();
  if (!vocabulary.has(*id)) {
    return error(ErrorKind::corrupt, "tokenizer.ggml.", key, " is ", *id, ": want less than the ",
                 vocabulary.tokens.size(), " tokens");
  }
  return std::optional(static_cast<int32_t>(*id));
}

Status read_ids(const GgufVocabulary& gguf, Vocabulary& v) {
  TRY(v.bos, read_id(v, "bos_token_id", gguf.bos_token_id));
  TRY(v.eos, read_id(v, "eos_token_id", gguf.eos_token_id));
  TRY(v.unk, read_id(v, "unknown_token_id", gguf.unknown_token_id));
  TRY(v.pad, read_id(v, "padding_token_id", gguf.padding_token_id));
  TRY(v.mask, read_id(v, "mask_token_id", gguf.mask_token_id));
  TRY(v.eot, read_id(v, "eot_token_id", gguf.eot_token_id));
  TRY(v.eom, read_id(v, "eom_token_id", gguf.eom_token_id));
  TRY(const auto fim_pad, read_id(v, "fim_pad_token_id", gguf.fim_pad_token_id));
  TRY(const auto fim_rep, read_id(v, "fim_rep_token_id", gguf.fim_rep_token_id));
  TRY(const auto fim_sep, read_id(v, "fim_sep_token_id", gguf.fim_sep_token_id));
  for (const auto& id : {fim_pad, fim_rep, fim_sep})
    if (id) v.add_end(*id);
  return {};
}

// The ids that llama.cpp assumes for a "llama" file without the keys.
void default_ids(Vocabulary& vocabulary) {
  if (!vocabulary.unk && vocabulary.has(0)) vocabulary.unk = 0;
  if (!vocabulary.bos && vocabulary.has(1)) vocabulary.bos = 1;
  if (!vocabulary.eos && vocabulary.has(2)) vocabulary.eos = 2;
}

// Null if this kind of vocabulary has no pre-tokenizer.
Result<const PreTokenizer*> pre_tokenizer_of(const GgufVocabulary& gguf, VocabularyKind kind) {
  if (kind != VocabularyKind::byte_level) return nullptr;
  if (const PreTokenizer* pre = find_pre_tokenizer(gguf.pre.empty() ? "default" : gguf.pre)) return pre;
  return error(ErrorKind::unsupported, "tokenizer.ggml.pre is \"", printable(gguf.pre),
               "\": want a pre-tokenizer that Sluice knows");
}

// Reads the rules for cutting text, and rules that depend on the tokenizer rather than on a key.
Status read_rules(const GgufVocabulary& gguf, bool forces_bos, Vocabulary& vocabulary) {
  bool adds_bos = true;
  TRY(const PreTokenizer* pre, pre_tokenizer_of(gguf, vocabulary.kind));
  if (pre != nullptr) {
    vocabulary.splits = pre->splits;
    vocabulary.ignore_merges = pre->ignore_merges;
    adds_bos = pre->adds_bos;
  } else {
    vocabulary.fuse_unknown = true;
    vocabulary.space_prefix = gguf.add_space_prefix.value_or(vocabulary.kind == VocabularyKind::scored);
  }
  vocabulary.nfc = gguf.nfc.value_or(false);
  if (vocabulary.kind == VocabularyKind::scored) default_ids(vocabulary);
  if (gguf.add_bos_token.value_or(false) && !vocabulary.bos)
    return error(ErrorKind::corrupt, "tokenizer.ggml.add_bos_token is true: want a tokenizer.ggml.bos_token_id");
  vocabulary.add_bos = vocabulary.bos && (forces_bos || gguf.add_bos_token.value_or(adds_bos));
  vocabulary.add_eos = vocabulary.eos && gguf.add_eos_token.value_or(false);
  return {};
}

bool may_merge(const Vocabulary& vocabulary, std::optional<int32_t> id) {
  if (!id) return false;
  const TokenKind kind = vocabulary.tokens[static_cast<size_t>(*id)].kind;
  return kind == TokenKind::normal || kind == TokenKind::user_defined || kind == TokenKind::unused;
}

// Makes a merge for every way to join two tokens to a third. The third token's score is the rank: higher merges first.
Status merge_by_score(Vocabulary& vocabulary) {
  std::vector<float> scores;
  scores.reserve(vocabulary.tokens.size());
  for (const Token& token : vocabulary.tokens) scores.push_back(token.score == token.score ? token.score : 0);
  std::vector<float> order = scores;
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view text = vocabulary.tokens[id].text;
    if (!may_merge(vocabulary, static_cast<int32_t>(id))) continue;
    if (text.size() > kMaxScoredTokenBytes) {
      return error(ErrorKind::unsupported, "tokenizer.ggml.tokens: token ", id, " is ", text.size(),
                   " bytes long: want at most ", kMaxScoredTokenBytes, " where tokens merge by score");
    }
    const auto rank = std::lower_bound(order.begin(), order.end(), scores[id], std::greater<>()) - order.begin();
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if ((static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) continue;
      const auto left = vocabulary.find(text.substr(0, cut));
      const auto right = vocabulary.find(text.substr(cut));
      if (!may_merge(vocabulary, left) || !may_merge(vocabulary, right)) continue;
      vocabulary.merges.push_back({*left, *right, static_cast<int32_t>(id), static_cast<uint32_t>(rank)});
    }
  }
  return {};
}

// Markers that llama.cpp's files have as plain text become markers.
void hide_markers(Vocabulary& vocabulary) {
  for (Token& token : vocabulary.tokens) {
    if (token.kind != TokenKind::user_defined || !is_visible_marker(token.text)) continue;
    token.kind = TokenKind::control;
    token.special = true;
  }
}

std::optional<int64_t> written_id(std::optional<int32_t> id) { return id ? std::optional<int64_t>(*id) : std::nullopt; }

void write_tokens(const Vocabulary& vocabulary, size_t count, GgufVocabulary& gguf) {
  const GgufTokenizer& tokenizer = gguf_tokenizer(vocabulary.kind);
  for (const Token& token : vocabulary.tokens) {
    gguf.tokens.push_back(token.text);
    const bool shown = tokenizer.shows_markers && is_visible_marker(token.text);
    gguf.token_type.push_back(static_cast<int32_t>(shown ? TokenKind::user_defined : token.kind));
    if (vocabulary.kind == VocabularyKind::scored) gguf.scores.push_back(token.score);
  }
  for (size_t id = gguf.tokens.size(); id < count; ++id) {
    gguf.tokens.push_back(cat("[PAD", id, "]"));
    gguf.token_type.push_back(static_cast<int32_t>(TokenKind::unused));
    if (vocabulary.kind == VocabularyKind::scored) gguf.scores.push_back(-1000);
  }
  // As in the files of llama.cpp's converter, though its merges need no scores.
  if (tokenizer.writes_scores) gguf.scores.assign(gguf.tokens.size(), -1000);
}

Status write_merges(const Vocabulary& vocabulary, GgufVocabulary& gguf) {
  if (vocabulary.kind == VocabularyKind::scored) return {};
  for (const Merge& merge : vocabulary.merges) {
    const std::string& left = vocabulary.tokens[static_cast<size_t>(merge.left)].text;
    const std::string& right = vocabulary.tokens[static_cast<size_t>(merge.right)].text;
    if (left.empty() || right.empty() || left.find(' ', 1) != std::string::npos || right[0] == ' ') {
      return error(ErrorKind::unsupported, "merge ", merge.rank, " (\"", printable(left), "\" + \"", printable(right),
                   "\") cannot be written as \"left right\": want tokens without spaces");
    }
    gguf.merges.push_back(cat(left, ' ', right));
  }
  return {};
}

Status write_names(const Vocabulary& vocabulary, GgufVocabulary& gguf) {
  const GgufTokenizer& tokenizer = gguf_tokenizer(vocabulary.kind);
  gguf.model = tokenizer.model;
  if (vocabulary.kind == VocabularyKind::byte_level) {
    const PreTokenizer* pre = find_pre_tokenizer(vocabulary.splits, vocabulary.ignore_merges);
    if (pre == nullptr) {
      return error(ErrorKind::unsupported, "no tokenizer.ggml.pre stands for this vocabulary's rules",
                   vocabulary.ignore_merges ? " with whole words" : "", ": want those of a named pre-tokenizer");
    }
    gguf.pre = pre->name;
    return {};
  }
  if (vocabulary.kind == VocabularyKind::sentencepiece && vocabulary.space_prefix) {
    return error(ErrorKind::unsupported,
                 "no tokenizer.ggml.model stands for merges over U+2581 with a space before the text: want none");
  }
  gguf.pre = tokenizer.pre;
  gguf.add_space_prefix = vocabulary.space_prefix;
  return {};
}

}  // namespace

Status check_gguf_kind(const GgufVocabulary& gguf) {
  TRY(const GgufTokenizer* tokenizer, find_gguf_tokenizer(gguf));
  TRY_STATUS(pre_tokenizer_of(gguf, tokenizer->kind));
  return {};
}

Result<Vocabulary> vocabulary_from_gguf(GgufVocabulary gguf) {
  Vocabulary vocabulary;
  TRY(const GgufTokenizer* tokenizer, find_gguf_tokenizer(gguf));
  vocabulary.kind = tokenizer->kind;
  TRY_STATUS(read_tokens(gguf, vocabulary));
  TRY_STATUS(read_ids(gguf, vocabulary));
  TRY_STATUS(read_rules(gguf, tokenizer->forces_bos, vocabulary));
  if (tokenizer->shows_markers) hide_markers(vocabulary);
  if (vocabulary.kind == VocabularyKind::scored) {
    TRY_STATUS(merge_by_score(vocabulary));
  } else {
    vocabulary.merges.reserve(gguf.merges.size());
    for (const std::string& merge : gguf.merges) TRY_STATUS(add_merge(vocabulary, merge, "tokenizer.ggml.merges"));
  }
  complete(vocabulary);
  return vocabulary;
}

Result<GgufVocabulary> to_gguf(const Vocabulary& vocabulary, int64_t rows) {
  if (rows != 0 && (rows < static_cast<int64_t>(vocabulary.tokens.size()) || rows > kMaxVocabulary)) {
    return error(ErrorKind::invalid, "the embedding has ", rows, " rows for ", vocabulary.tokens.size(),
                 " tokens: want at least one row per token and at most ", kMaxVocabulary);
  }
  GgufVocabulary gguf;
  TRY_STATUS(write_names(vocabulary, gguf));
  write_tokens(vocabulary, static_cast<size_t>(rows), gguf);
  TRY_STATUS(write_merges(vocabulary, gguf));
  gguf.bos_token_id = written_id(vocabulary.bos);
  gguf.eos_token_id = written_id(vocabulary.eos);
  gguf.unknown_token_id = written_id(vocabulary.unk);
  gguf.padding_token_id = written_id(vocabulary.pad);
  gguf.mask_token_id = written_id(vocabulary.mask);
  gguf.eot_token_id = written_id(vocabulary.eot);
  gguf.eom_token_id = written_id(vocabulary.eom);
  gguf.add_bos_token = vocabulary.add_bos;
  gguf.add_eos_token = vocabulary.add_eos;
  if (vocabulary.nfc) gguf.nfc = true;
  return gguf;
}

}  // namespace sluice
