#include "checkpoint/file_type.h"

#include <gtest/gtest.h>

#include "tests/checkpoint/bytes.h"

namespace sluice {
namespace {

using namespace sluice::tests;  // NOLINT(google-build-using-namespace)

TEST(FileType, NumbersAreLlamaCpps) {
  EXPECT_EQ(file_type_name(0), "f32");
  EXPECT_EQ(file_type_name(7), "q8_0");
  EXPECT_EQ(file_type_name(15), "q4_k_m");
  EXPECT_EQ(file_type_name(32), "bf16");
  for (const uint32_t id : {4u, 5u, 6u, 33u, 1024u}) EXPECT_FALSE(file_type_name(id).has_value()) << id;
  for (uint32_t id = 0; id < 64; ++id) {
    const auto name = file_type_name(id);
    EXPECT_TRUE(!name || file_type_by_name(*name) == id) << id;
  }
  EXPECT_FALSE(file_type_by_name("q9_k").has_value());
}

using FormatLabel = Folder;

TEST_F(FormatLabel, IsTheFilesOwnName) {
  EXPECT_EQ(format_label(*open_checkpoint(SLUICE_TEST_DATA "/peer/gemma4_moe-bf16.gguf")), "bf16");
  const std::string mixed =
      put("m.gguf", padded(gguf_start(1, 1) + u32_key("general.file_type", 15) + gguf_info("t", {4})) + zeros(32));
  EXPECT_EQ(format_label(*open_checkpoint(mixed)), "q4_k_m");
}

TEST_F(FormatLabel, IsElseTheFormatOfMostBytes) {
  EXPECT_EQ(format_label(*open_checkpoint(SLUICE_TEST_DATA "/gemma4_moe")), "bf16");
  const std::string two = put("two.gguf", padded(gguf_start(2, 1) + u32_key("general.file_type", 4) +
                                                 gguf_info("a", {16}) + gguf_info("b", {64}, 8, 64)) +
                                              zeros(64 + 96));
  EXPECT_EQ(format_label(*open_checkpoint(two)), "q8_0");
  EXPECT_EQ(format_label(*open_checkpoint(put("none.gguf", padded(gguf_start(0, 1) + architecture())))), "");
}

TEST_F(FormatLabel, OfAnMlxDirectoryIsItsQuantization) {
  EXPECT_EQ(format_label(*open_checkpoint(SLUICE_TEST_DATA "/qwen3_5_moe_mlx2")), "mlx-4bit");
}

TEST_F(FormatLabel, OfPackedIntegersIsTheToolThatPackedThem) {
  const std::string header = R"({"w.qweight": {"dtype": "I32", "shape": [1, 2], "data_offsets": [0, 8]}})";
  const uint64_t length = header.size();
  put("model.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header + zeros(8));
  put("config.json", R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})");
  EXPECT_EQ(format_label(*open_checkpoint(folder_)), "gptq-4bit");
  put("config.json", R"({"quantization_config": {"quant_method": "compressed-tensors"}})");
  EXPECT_EQ(format_label(*open_checkpoint(folder_)), "compressed-tensors");
  put("config.json", "{}");
  EXPECT_EQ(format_label(*open_checkpoint(folder_)), "i32");
}

}  // namespace
}  // namespace sluice
