#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/gguf_writer.h"
#include "tests/checkpoint/bytes.h"

namespace sluice {
namespace {

using namespace sluice::tests;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::EndsWith;

const std::string kModel = SLUICE_TEST_DATA "/gemma4_moe";
const std::string kPeer = SLUICE_TEST_DATA "/peer/gemma4_moe-bf16.gguf";  // llama.cpp's conversion of the same model

std::string refusal(const std::string& path) {
  const auto checkpoint = open_checkpoint(path);
  return checkpoint.ok() ? "accepted" : checkpoint.error().text;
}

// ---- real files

TEST(Checkpoint, OpensAHuggingFaceDirectory) {
  const auto checkpoint = open_checkpoint(kModel);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text;
  EXPECT_EQ(checkpoint->dialect(), Dialect::hugging_face);
  EXPECT_STREQ(dialect_name(checkpoint->dialect()), "Hugging Face");
  EXPECT_EQ(checkpoint->path(), kModel);
  EXPECT_THAT(checkpoint->files(), ElementsAre(kModel + "/model.safetensors"));
  const StoredTensor* experts = checkpoint->find("model.language_model.layers.0.experts.gate_up_proj");
  ASSERT_NE(experts, nullptr);
  EXPECT_EQ(experts->format, Format::bf16);
  EXPECT_THAT(experts->shape, ElementsAre(8, 64, 64));
  EXPECT_EQ(experts->bytes.size(), 65536u);
  EXPECT_EQ(checkpoint->find("model.language_model.layers.9"), nullptr);
  EXPECT_EQ(checkpoint->document("config.json")->find("model_type")->as_string(), "gemma4");
  EXPECT_NE(checkpoint->document("tokenizer.json"), nullptr);
  EXPECT_EQ(checkpoint->document("special_tokens_map.json"), nullptr);
  EXPECT_NE(checkpoint->text_file("chat_template.jinja"), nullptr);
  EXPECT_EQ(checkpoint->text_file("other.jinja"), nullptr);
  EXPECT_TRUE(checkpoint->metadata().entries().empty());
}

TEST(Checkpoint, OpensAGgufFile) {
  const auto checkpoint = open_checkpoint(kPeer);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text;
  EXPECT_EQ(checkpoint->dialect(), Dialect::gguf);
  EXPECT_EQ(*checkpoint->metadata().get_string("general.architecture"), "gemma4");
  EXPECT_EQ(*checkpoint->metadata().get_u32("gemma4.block_count"), 5u);
  EXPECT_EQ((*checkpoint->metadata().get_array<std::string>("tokenizer.ggml.tokens"))->size(), 768u);
  EXPECT_NE(checkpoint->key("tokenizer.chat_template"), nullptr);
  EXPECT_EQ(checkpoint->document("config.json"), nullptr);
}

TEST(Checkpoint, BothDialectsHoldTheSameWeights) {
  const Checkpoint ours = *open_checkpoint(kModel);
  const Checkpoint theirs = *open_checkpoint(kPeer);
  const StoredTensor* embedding = ours.find("model.language_model.embed_tokens.weight");
  const StoredTensor* token_embd = theirs.find("token_embd.weight");
  ASSERT_NE(token_embd, nullptr);
  EXPECT_EQ(embedding->shape, token_embd->shape);
  ASSERT_EQ(embedding->bytes.size(), token_embd->bytes.size());
  EXPECT_EQ(std::memcmp(embedding->bytes.data(), token_embd->bytes.data(), embedding->bytes.size()), 0);
  // One that llama.cpp widened from bf16 to f32.
  const StoredTensor* norm = ours.find("model.language_model.norm.weight");
  const StoredTensor* output_norm = theirs.find("output_norm.weight");
  EXPECT_EQ(output_norm->format, Format::f32);
  std::vector<float> narrow(64);
  std::vector<float> wide(64);
  decode_row(norm->format, norm->bytes.data(), narrow.data(), 64);
  decode_row(output_norm->format, output_norm->bytes.data(), wide.data(), 64);
  EXPECT_EQ(narrow, wide);
}

TEST(Checkpoint, TensorsOutliveTheCheckpointWithTheirOwner) {
  std::shared_ptr<const void> owner;
  StoredTensor tensor;
  {
    const Checkpoint checkpoint = *open_checkpoint(kPeer);
    tensor = checkpoint.tensors().back();
    owner = checkpoint.owner(tensor);
  }
  float value = 0;
  decode_row(tensor.format, tensor.bytes.data(), &value, 1);
  EXPECT_NE(value, 0.0f);
}

TEST(Checkpoint, OpensOneSafetensorsFileByItself) {
  const auto golden = open_safetensors(kModel + "/golden.safetensors");
  ASSERT_TRUE(golden.ok()) << golden.error().text;
  EXPECT_FALSE(golden->tensors().empty());
  EXPECT_EQ(open_safetensors(kModel + "/none").error().kind, ErrorKind::not_found);
}

using CheckpointFile = Folder;

// Keys, tensors and padding of llama.cpp's writer come out of ours byte for byte.
TEST_F(CheckpointFile, AGgufFileWrittenAgainIsTheSameFile) {
  const Checkpoint checkpoint = *open_checkpoint(kPeer);
  GgufWriter writer;
  for (const auto& [name, value] : checkpoint.metadata().entries()) writer.add_key(name, value);
  for (const StoredTensor& tensor : checkpoint.tensors()) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
  {
    AtomicFile file = *AtomicFile::create(path("again.gguf"));
    ASSERT_TRUE(writer.begin(file).ok());
    for (const StoredTensor& tensor : checkpoint.tensors()) ASSERT_TRUE(writer.write(tensor.bytes).ok());
    writer.finish();
    ASSERT_TRUE(file.commit().ok());
  }
  EXPECT_TRUE(*read_file(kPeer, 1 << 24) == *read_file(path("again.gguf"), 1 << 24));
}

// ---- directories right and wrong

std::string shard(std::string_view name, std::string_view value) {
  return safetensors_of(cat("{\"", name, R"(":{"dtype":"U8","shape":[)", value.size(), R"(],"data_offsets":[0,)",
                            value.size(), "]}}"),
                        0) +
         std::string(value);
}

class CheckpointDirectory : public Folder {
 protected:
  CheckpointDirectory() { put("config.json", "{}"); }
  void index(std::string_view weight_map) const {
    put("model.safetensors.index.json", cat(R"({"metadata":{},"weight_map":)", weight_map, "}"));
  }
  std::string index_path() const { return path("model.safetensors.index.json"); }
};

TEST_F(CheckpointDirectory, ReadsEveryShardOfTheIndex) {
  put("one.safetensors", shard("a", "xyz"));
  put("two.safetensors", shard("b", "uv"));
  index(R"({"b":"two.safetensors","a":"one.safetensors"})");
  const auto checkpoint = open_checkpoint(folder_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text;
  EXPECT_THAT(checkpoint->files(), ElementsAre(path("one.safetensors"), path("two.safetensors")));
  EXPECT_EQ(checkpoint->find("b")->file, 1u);
  EXPECT_EQ(static_cast<char>(checkpoint->find("b")->bytes.data()[1]), 'v');
}

TEST_F(CheckpointDirectory, AFileThatTheIndexDoesNotNameIsLeftAlone) {
  put("one.safetensors", shard("a", "xyz"));
  put("golden.safetensors", "no tensors");
  index(R"({"a":"one.safetensors"})");
  EXPECT_EQ(refusal(folder_), "accepted");
}

TEST_F(CheckpointDirectory, TakesTheOneSafetensorsFileThereIs) {
  put("weights.safetensors", shard("a", "xyz"));
  EXPECT_EQ(refusal(folder_), "accepted");
  put("model.safetensors", shard("a", "xyz"));  // and prefers this name
  EXPECT_THAT(open_checkpoint(folder_)->files(), ElementsAre(path("model.safetensors")));
}

TEST_F(CheckpointDirectory, AMissingShardIsNamed) {
  put("one.safetensors", shard("a", "xyz"));
  index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  EXPECT_EQ(refusal(folder_),
            path("two.safetensors") + ": missing: want every file that model.safetensors.index.json names");
}

TEST_F(CheckpointDirectory, AnIndexThatDoesNotFitItsFilesIsRefused) {
  put("one.safetensors", shard("a", "xyz"));
  put("two.safetensors", shard("b", "uv"));
  index(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})");
  EXPECT_EQ(refusal(folder_), index_path() + ": tensor c is not in two.safetensors: want the index to fit its files");
  index(R"({"a":"two.safetensors","b":"one.safetensors"})");
  EXPECT_EQ(refusal(folder_), index_path() + ": tensor a is not in two.safetensors: want the index to fit its files");
  put("two.safetensors", safetensors_of(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                        R"("d":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                        2));
  index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  EXPECT_EQ(refusal(folder_),
            index_path() + ": tensor d of two.safetensors is not listed: want the index to fit its files");
}

TEST_F(CheckpointDirectory, ATensorInTwoShardsIsRefused) {
  put("one.safetensors", shard("a", "xyz"));
  put("two.safetensors", shard("a", "uv"));
  index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  EXPECT_EQ(refusal(folder_), path("two.safetensors") + ": tensor a stands in another file too");
}

TEST_F(CheckpointDirectory, AnIndexMayNameFilesOfItsDirectoryOnly) {
  for (const char* name :
       {"../secret.safetensors", "/etc/passwd", "sub/x.safetensors", "", "x.bin", "..", "a\\u0000.safetensors"}) {
    index(cat(R"({"a":")", name, "\"}"));
    EXPECT_THAT(refusal(folder_), EndsWith(": want a safetensors file of the directory")) << name;
  }
  index(R"({"a":5})");
  EXPECT_EQ(refusal(folder_), index_path() + ": tensor a is in 5: want a safetensors file of the directory");
}

TEST_F(CheckpointDirectory, ABrokenIndexIsRefused) {
  put("model.safetensors.index.json", "{\"weight_map\":");
  EXPECT_THAT(refusal(folder_), ::testing::StartsWith(index_path() + ": no JSON at byte"));
  put("model.safetensors.index.json", "[]");
  EXPECT_EQ(refusal(folder_), index_path() + ": no weight_map: want tensor names with file names");
  index("{}");
  EXPECT_EQ(refusal(folder_), index_path() + ": 0 files: want 1 to 10000");
}

TEST_F(CheckpointDirectory, ABrokenDocumentIsNamed) {
  put("model.safetensors", shard("a", "xyz"));
  put("tokenizer_config.json", "{\"a\"");
  EXPECT_THAT(refusal(folder_), ::testing::StartsWith(path("tokenizer_config.json") + ": no JSON at byte"));
}

TEST_F(CheckpointDirectory, ABrokenShardIsNamed) {
  put("model.safetensors", shard("a", "xyz").substr(0, 20));
  EXPECT_EQ(refusal(folder_), path("model.safetensors") + ": the header has 53 bytes: want at most 12");
}

TEST_F(CheckpointDirectory, WithoutWeightsSaysWhatIsMissing) {
  EXPECT_EQ(refusal(folder_), folder_ + ": no *.safetensors: want a Hugging Face directory or a GGUF file");
  put("pytorch_model.bin", "x");
  EXPECT_EQ(refusal(folder_), folder_ + ": weights of PyTorch's pickle format: want safetensors");
}

TEST_F(CheckpointDirectory, SeveralFilesNeedTheirIndex) {
  put("model-00001-of-00002.safetensors", shard("a", "xyz"));
  put("model-00002-of-00002.safetensors", shard("b", "xyz"));
  EXPECT_EQ(refusal(folder_), folder_ +
                                  ": 2 safetensors files and no model.safetensors.index.json: want the index that says "
                                  "which tensor is where");
}

// ---- paths that are no checkpoint

TEST_F(CheckpointFile, AFolderOfAnAdapterIsNamed) {
  put("adapter_config.json", "{}");
  put("adapter_model.safetensors", shard("a", "x"));
  EXPECT_EQ(refusal(folder_),
            folder_ + ": a LoRA adapter: want the model that it changes, and --adapter for this folder");
}

TEST_F(CheckpointFile, PathsThatAreNoCheckpointGiveOneSentence) {
  EXPECT_EQ(refusal(path("none")), path("none") + ": no such file or directory");
  EXPECT_EQ(open_checkpoint(path("none")).error().kind, ErrorKind::not_found);
  EXPECT_EQ(refusal(folder_), folder_ + ": an empty directory: want config.json and safetensors");
  EXPECT_EQ(refusal("/dev/null"), "/dev/null: neither a file nor a directory");
  const std::string text = put("notes.txt", "some text");
  EXPECT_EQ(refusal(text), text + ": not a GGUF file: want a GGUF file or a Hugging Face directory");
  EXPECT_EQ(refusal(folder_), folder_ + ": no config.json: want a Hugging Face directory or a GGUF file");
  const std::string weights = put("a.safetensors", shard("a", "x"));
  EXPECT_EQ(refusal(weights), weights + ": weights without their config.json: want the directory they lie in");
  const std::string empty = put("empty.gguf", "");
  EXPECT_EQ(refusal(empty), empty + ": an empty file: want a GGUF file or a Hugging Face directory");
  EXPECT_EQ(refusal(folder_), folder_ + ": a directory of GGUF files: want one of them, such as empty.gguf");
}

TEST_F(CheckpointFile, AGgufFileNeedsNoSuffix) {
  EXPECT_EQ(refusal(put("blob", gguf_of(gguf_info("t", {4})))), "accepted");
}

// Opening reads headers: a file of 100 GB (sparse, so that it takes no room) opens at once.
TEST_F(CheckpointFile, OpeningDoesNotReadTensors) {
  GgufWriter writer;
  writer.add_tensor("huge", Format::i8, {100, 1000000000});
  MemorySink sink(4096);
  ASSERT_TRUE(writer.begin(sink).ok());
  const std::string file = put("huge.gguf", sink.written());
  std::error_code failed;
  std::filesystem::resize_file(file, sink.written().size() + 100'000'000'000, failed);
  if (failed) GTEST_SKIP() << "no sparse files here: " << failed.message();
  const auto checkpoint = open_checkpoint(file);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text;
  const std::span<const std::byte> bytes = checkpoint->tensors()[0].bytes;
  EXPECT_EQ(bytes.size(), 100'000'000'000u);
  EXPECT_EQ(bytes.back(), std::byte{0});
}

}  // namespace
}  // namespace sluice
