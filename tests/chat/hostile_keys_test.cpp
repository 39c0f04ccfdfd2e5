// A real GGUF model whose keys lie, one at a time: what a hostile file says about layers, heads, tokens and ids, and
// with which sentence it is refused. The classes are those of llama.cpp's recorded defects: counts that write past
// per-layer arrays, ids beyond the vocabulary, lists shorter than the tokens, keys of another type.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "chat/text_parts.h"
#include "checkpoint/gguf_writer.h"
#include "tests/checkpoint/bytes.h"

namespace sluice {
namespace {

const std::string kFile = SLUICE_TEST_DATA "/peer/gemma4_moe-bf16.gguf";

class HostileKeys : public tests::Folder {
 protected:
  // The refusal of the model with `key` as given, without the file's name; "" when it opens.
  std::string with(const std::string& key, GgufValue value) const {
    GgufWriter writer;
    for (const auto& [name, stored] : model_.metadata().entries())
      if (name != key) writer.add_key(name, stored);
    writer.add_key(key, std::move(value));
    for (const StoredTensor& tensor : model_.tensors()) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
    tests::MemorySink sink;
    CHECK(writer.begin(sink).ok());
    for (const StoredTensor& tensor : model_.tensors()) CHECK(writer.write(tensor.bytes).ok());
    std::ofstream(path("m.gguf"), std::ios::binary) << sink.written();
    const Status status = open(path("m.gguf"));
    if (status) return "";
    const std::string& text = status.error().text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    const std::string file = path("m.gguf") + ": ";
    return starts_with(text, file) ? text.substr(file.size()) : text;
  }
  static Status open(const std::string& path) {
    TRY(Checkpoint checkpoint, open_checkpoint(path));
    TRY(const Model model, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
    TRY_STATUS(model.record_text());
    return open_text(model).ok() ? Status() : Status(open_text(model).error());
  }
  template <class T>
  std::vector<T> list(const char* key) const {
    return **model_.metadata().get_array<T>(key);
  }

  const Checkpoint model_ = *open_checkpoint(kFile);
};

TEST_F(HostileKeys, TheModelItselfOpens) { EXPECT_EQ(with("x.y", uint8_t{1}), ""); }

TEST_F(HostileKeys, CountsOfLayers) {
  const std::string key = "gemma4.block_count";
  EXPECT_EQ(with(key, uint32_t{0}), key + " is 0: want 1 to 512");
  EXPECT_EQ(with(key, uint32_t{513}), key + " is 513: want 1 to 512");
  EXPECT_EQ(with(key, uint32_t{UINT32_MAX}), key + " is 4294967295: want 1 to 512");
  EXPECT_EQ(with(key, uint64_t{UINT64_MAX}), key + " is 1.84467e+19: want 1 to 512");
  EXPECT_EQ(with(key, int64_t{INT64_MIN}), key + " is -9.22337e+18: want 1 to 512");
  EXPECT_EQ(with(key, int32_t{-1}), key + " is -1: want 1 to 512");
  EXPECT_EQ(with(key, 2.5f), key + " is 2.5: want 1 to 512");
  EXPECT_EQ(with(key, std::numeric_limits<double>::quiet_NaN()), key + " is nan: want 1 to 512");
  EXPECT_EQ(with(key, std::string("5")), key + " is string: want 1 to 512");
  EXPECT_EQ(with(key, GgufArray<uint32_t>{5}), key + " is an array: want 1 to 512");
  // Lists of one value a layer are held to it.
  EXPECT_EQ(with(key, uint32_t{512}), "gemma4.attention.head_count_kv has 5 entries: want one for each of 512 layers");
}

TEST_F(HostileKeys, OneValueALayer) {
  const std::string kv = "gemma4.attention.head_count_kv";
  EXPECT_EQ(with(kv, GgufArray<int32_t>{2, 2, 1, 2}), kv + " has 4 entries: want one for each of 5 layers");
  EXPECT_EQ(with(kv, GgufArray<int32_t>(1u << 20, 2)), kv + " has 1048576 entries: want one for each of 5 layers");
  EXPECT_EQ(with(kv, GgufArray<int32_t>{}), kv + " has 0 entries: want one for each of 5 layers");
  EXPECT_EQ(with(kv, GgufArray<int32_t>{2, 2, -1, 2, 1}), kv + "[2] is -1: want 1 to 4096");
  EXPECT_EQ(with(kv, GgufArray<int32_t>{2, 2, 0, 2, 1}), kv + "[2] is 0: want 1 to 4096");
  EXPECT_EQ(with(kv, GgufArray<std::string>(5, "2")), kv + "[0] is array of string: want 1 to 4096");
  EXPECT_EQ(with("gemma4.attention.sliding_window_pattern", GgufArray<uint32_t>{1, 1, 0, 1, 7}),
            "gemma4.attention.sliding_window_pattern[4] is 7: want true or false");
}

TEST_F(HostileKeys, NumbersOutOfRange) {
  EXPECT_EQ(with("gemma4.attention.head_count", uint32_t{0}), "gemma4.attention.head_count is 0: want 1 to 4096");
  EXPECT_EQ(with("gemma4.expert_count", uint32_t{1u << 31}), "gemma4.expert_count is 2147483648: want 0 to 1024");
  EXPECT_EQ(with("gemma4.expert_used_count", uint32_t{9}), "gemma4.expert_used_count is 9: want 1 to 8");
  EXPECT_EQ(with("gemma4.embedding_length", uint32_t{UINT32_MAX}),
            "gemma4.embedding_length is 4294967295: want 1 to 1048576");
  EXPECT_EQ(with("gemma4.context_length", uint64_t{1} << 40),
            "gemma4.context_length is 1099511627776: want 1 to "
            "268435456");
  EXPECT_EQ(with("gemma4.rope.freq_base", std::numeric_limits<float>::infinity()),
            "gemma4.rope.freq_base is inf: want 1 to 1000000000000");
  EXPECT_EQ(with("gemma4.attention.layer_norm_rms_epsilon", -1e-6f),
            "gemma4.attention.layer_norm_rms_epsilon is -1e-06: want 1e-12 to 1");
}

// What a file advises about sampling refuses no model: out of range it is left out.
TEST_F(HostileKeys, SamplingDefaultsOutOfRangeAreLeftOut) {
  EXPECT_EQ(with("general.sampling.top_p", std::nanf("")), "");
  EXPECT_EQ(with("general.sampling.top_k", int32_t{-1}), "");
  EXPECT_EQ(with("general.sampling.temp", std::string("hot")), "");
}

TEST_F(HostileKeys, TypesThatAreWrong) {
  EXPECT_EQ(with("general.architecture", uint32_t{4}), "key general.architecture is u32: want string");
  const std::string longer = with("general.architecture", std::string("gemma4\0x", 8));
  EXPECT_TRUE(starts_with(longer, "a Gemma model (general.architecture is gemma4\\x00x): want Gemma 4")) << longer;
  EXPECT_EQ(with("tokenizer.ggml.tokens", GgufArray<uint32_t>{1, 2}),
            "key tokenizer.ggml.tokens is array of u32: want array of string");
  EXPECT_EQ(with("tokenizer.ggml.tokens", std::string("a")),
            "key tokenizer.ggml.tokens is string: want array of string");
  EXPECT_EQ(with("tokenizer.ggml.token_type", GgufArray<float>(768, 1)),
            "key tokenizer.ggml.token_type is array of f32: want array of i32");
  EXPECT_EQ(with("tokenizer.ggml.scores", GgufArray<double>(768, 1)),
            "key tokenizer.ggml.scores is array of f64: want array of f32");
  EXPECT_EQ(with("tokenizer.ggml.bos_token_id", std::string("2")),
            "key tokenizer.ggml.bos_token_id is string: want u32");
  EXPECT_EQ(with("tokenizer.ggml.add_bos_token", uint32_t{1}), "key tokenizer.ggml.add_bos_token is u32: want bool");
  EXPECT_EQ(with("tokenizer.chat_template", GgufArray<std::string>{"a"}),
            "key tokenizer.chat_template is array of string: want string");
  EXPECT_EQ(with("tokenizer.ggml.model", uint8_t{1}), "key tokenizer.ggml.model is u8: want string");
}

TEST_F(HostileKeys, TokensThatLie) {
  const auto types = list<int32_t>("tokenizer.ggml.token_type");
  auto tokens = list<std::string>("tokenizer.ggml.tokens");
  EXPECT_EQ(with("tokenizer.ggml.token_type", GgufArray<int32_t>(types.begin(), types.end() - 1)),
            "tokenizer.ggml.token_type has 767 entries: want 768, one per token");
  EXPECT_EQ(with("tokenizer.ggml.scores", GgufArray<float>{1}),
            "tokenizer.ggml.scores has 1 entries: want 768, one per token");
  EXPECT_EQ(with("tokenizer.ggml.eos_token_id", uint32_t{768}),
            "tokenizer.ggml.eos_token_id is 768: want less than the 768 tokens");
  EXPECT_EQ(with("tokenizer.ggml.padding_token_id", uint32_t{UINT32_MAX - 1}),
            "tokenizer.ggml.padding_token_id is 4294967294: want less than the 768 tokens");
  const auto byte = std::find(types.begin(), types.end(), 6) - types.begin();
  tokens[static_cast<size_t>(byte)] = "<0x-1>";
  EXPECT_EQ(with("tokenizer.ggml.tokens", tokens),
            cat("tokenizer.ggml.tokens: token ", byte, " of type byte is \"<0x-1>\": want <0x00> to <0xFF>"));
  tokens.push_back("one more");
  EXPECT_EQ(with("tokenizer.ggml.tokens", tokens),
            "tokenizer.ggml.token_type has 768 entries: want 769, one per token");
  // A text longer than 31 bits can count is refused where files are read; one of a megabyte is only long.
  tokens = list<std::string>("tokenizer.ggml.tokens");
  tokens[700] = std::string(1 << 20, 'z');
  EXPECT_NE(with("tokenizer.ggml.tokens", tokens).find("needs "), std::string::npos);  // a merge made the old text
  EXPECT_EQ(with("tokenizer.ggml.suppress_tokens", GgufArray<int32_t>(1u << 20, 3)),
            "tokenizer.ggml.suppress_tokens has 1048576 entries: want at most 16384");
  EXPECT_EQ(with("tokenizer.ggml.suppress_tokens", GgufArray<int32_t>{-1, 768, INT32_MIN, INT32_MAX}), "");
}

TEST_F(HostileKeys, SomethingElseThanATemplate) {
  EXPECT_EQ(with("tokenizer.chat_template", std::string("{% for %}")),
            "tokenizer.chat_template:1: found %}: want a name");
  EXPECT_EQ(with("tokenizer.chat_template", std::string(2000000, 'a')),
            "tokenizer.chat_template: found a template of 2.0 MB: want 262.1 kB at most");
}

}  // namespace
}  // namespace sluice
