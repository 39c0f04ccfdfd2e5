// Vocabularies for tests: the reference models', and small ones written out in the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace sluice::test {

template <class T>
T value_of(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().text;
    std::abort();
  }
  return *std::move(result);
}

inline Json read_data(const std::string& path) {
  const std::string full = std::string(SLUICE_TEST_DATA) + "/" + path;
  return value_of(parse_json(value_of(read_file(full, 1u << 28)), path));
}

inline Vocabulary model_vocabulary(const std::string& model) {
  const Json config = read_data(model + "/tokenizer_config.json");
  return value_of(vocabulary_from_huggingface(read_data(model + "/tokenizer.json"), &config));
}

inline std::vector<int32_t> ids_of(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list.as_array()) ids.push_back(static_cast<int32_t>(id.as_integer()));
  return ids;
}

// As GPT-2: two letters and their merge, byte-level, cut into words.
inline constexpr std::string_view kByteLevel = R"({
  "added_tokens": [{"id": 4, "content": "<|end|>", "special": true}, {"id": 5, "content": "<think>", "special": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "post_processor": null,
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3}, "merges": [["a", "b"]]}
})";
// As Gemma: U+2581 for spaces, two byte tokens, a <bos> before the text.
inline constexpr std::string_view kSentencePiece = R"({
  "added_tokens": [{"id": 0, "content": "<bos>", "special": true}, {"id": 1, "content": "<unk>", "special": true}],
  "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
  "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
  "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
    "vocab": {"<bos>": 0, "<unk>": 1, "<0xC3>": 2, "<0xA9>": 3, "a": 4, "\u2581": 5, "\u2581a": 6},
    "merges": [["\u2581", "a"]]}
})";

// The least that tokenizer.ggml.* says; other keys are put in by the test.
inline GgufVocabulary gguf_of(std::string model, std::string pre, std::vector<std::string> tokens) {
  GgufVocabulary gguf;
  gguf.model = std::move(model);
  gguf.pre = std::move(pre);
  gguf.tokens = std::move(tokens);
  return gguf;
}

// `text` with the first `from` in it replaced, which must be there.
inline std::string with(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  const size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) out.replace(at, from.size(), to);
  return out;
}

inline Result<Vocabulary> read_tokenizer(std::string_view text, std::string_view config = "") {
  const Json json = value_of(parse_json(text, "tokenizer.json"));
  if (config.empty()) return vocabulary_from_huggingface(json, nullptr);
  const Json config_json = value_of(parse_json(config, "tokenizer_config.json"));
  return vocabulary_from_huggingface(json, &config_json);
}

}  // namespace sluice::test
