// GGUF files written from models: against the file llama.cpp wrote from the same model, and read back.
#include "model/export.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "checkpoint/gguf_writer.h"
#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"

namespace sluice {
namespace {

using testing::like_12b;
using testing::like_26b;
using testing::like_e4b;
using testing::TinyShape;

const std::string kMoe = std::string(SLUICE_TEST_DATA) + "/gemma4_moe";
const std::string kMoeOfThePeer = std::string(SLUICE_TEST_DATA) + "/peer/gemma4_moe-bf16.gguf";

std::string converted(const ExportTensor& tensor) {
  std::string bytes;
  const Status status = convert_rows(tensor, [&](std::span<const std::byte> piece) -> Status {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return {};
  });
  EXPECT_TRUE(status) << status.error().text;
  return bytes;
}

const ExportTensor& find(const GgufExport& out, const std::string& name) {
  const auto found = std::ranges::find(out.tensors, name, &ExportTensor::name);
  EXPECT_NE(found, out.tensors.end()) << name;
  return *found;
}

const GgufValue* find_key(const GgufExport& out, const std::string& name) {
  const auto found = std::ranges::find(out.keys, name, &GgufMetadata::Entry::name);
  return found == out.keys.end() ? nullptr : &found->value;
}

ExportTensor tensor_of(std::vector<float> values, uint32_t rows, Format format) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  const auto columns = static_cast<uint32_t>(owner->size() / rows);
  const TensorSource source{.shape = {1, rows, columns},
                            .format = Format::f32,
                            .bytes = reinterpret_cast<const std::byte*>(owner->data()),
                            .expert_stride = owner->size() * 4,
                            .row_stride = columns * 4,
                            .owner = owner};
  return {"blk.0.attn_q.weight", {rows, columns}, format, source};
}

class Export : public testing::TinyModel {
 protected:
  // Writes `out` as it stands, after `change`.
  std::string written(GgufExport out) {
    GgufWriter writer;
    for (auto& key : out.keys) writer.add_key(key.name, key.value);
    for (const ExportTensor& tensor : out.tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
    Result<AtomicFile> file = AtomicFile::create(path("out.gguf"));
    EXPECT_TRUE(writer.begin(*file));
    for (const ExportTensor& tensor : out.tensors)
      EXPECT_TRUE(convert_rows(tensor, [&](auto piece) { return writer.write(piece); }));
    writer.finish();
    EXPECT_TRUE(file->commit());
    return path("out.gguf");
  }

  static std::vector<float> logits_of(const Model& model) {
    Result<Program> program = model.record_text();
    EXPECT_TRUE(program) << program.error().text;
    TextBench bench(model, *std::move(program), 32);
    const std::vector<int32_t> tokens = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26};
    return bench.play(tokens, {5, 11}, {find_value(bench.program(), "logits")})[0];
  }
  Model model_of(const TinyShape& shape) {
    put_model(shape);
    return *open_model(folder_);
  }
};

TEST_F(Export, EqualsTheFileOfLlamaCpp) {
  const Result<Model> model = open_model(kMoe);
  const Result<GgufExport> out = export_gguf(*model, Format::bf16);
  ASSERT_TRUE(out) << out.error().text;
  const Result<Checkpoint> peer = open_checkpoint(kMoeOfThePeer);
  ASSERT_TRUE(peer) << peer.error().text;
  for (const auto& [name, value] : peer->metadata().entries()) {
    if (starts_with(name, "tokenizer.") || name == "general.name") continue;
    const GgufValue* ours = find_key(*out, name);
    ASSERT_NE(ours, nullptr) << name;
    EXPECT_TRUE(*ours == value) << name << ": " << type_text(*ours);
  }
  ASSERT_EQ(out->tensors.size(), peer->tensors().size());
  for (const StoredTensor& tensor : peer->tensors()) {
    const ExportTensor& ours = find(*out, tensor.name);
    EXPECT_EQ(ours.format, tensor.format) << tensor.name;
    EXPECT_EQ(ours.shape, tensor.shape) << tensor.name;
    const std::string bytes = converted(ours);
    ASSERT_EQ(bytes.size(), tensor.bytes.size()) << tensor.name;
    EXPECT_EQ(std::memcmp(bytes.data(), tensor.bytes.data(), bytes.size()), 0) << tensor.name;
  }
}

TEST_F(Export, SizeLabelsAreThoseOfLlamaCpp) {
  const char* models = std::getenv("SLUICE_REFERENCE_MODELS");
  if (models == nullptr) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: its models were not counted";
  const std::pair<const char*, const char*> labels[] = {
      {"gemma4", "8.5M"}, {"gemma4_dense", "445K"}, {"gemma4_moe", "8x356K"}};
  for (const auto& [name, label] : labels)
    EXPECT_EQ(open_model(cat(models, "/", name))->facts().size_label, label) << name;
}

TEST_F(Export, ReadBackGivesTheSameLogits) {
  for (const TinyShape& shape : {like_e4b(), like_12b(), like_26b()}) {
    const Model model = model_of(shape);
    const Result<Model> again = open_model(written(*export_gguf(model, Format::f32)));
    ASSERT_TRUE(again) << again.error().text;
    EXPECT_TRUE(again->unknown_tensors().empty());
    EXPECT_EQ(logits_of(*again), logits_of(model));
  }
}

TEST_F(Export, OllamasNamesGiveTheSameLogits) {
  const Model model = model_of(like_26b());
  GgufExport out = *export_gguf(model, Format::f32);
  std::vector<ExportTensor> tensors;
  for (ExportTensor& tensor : out.tensors) {
    if (ends_with(tensor.name, "ffn_down_exps.scale"))
      tensor.name.replace(tensor.name.size() - 19, 19, "ffn_gate_inp.per_expert_scale");
    if (!ends_with(tensor.name, "ffn_gate_up_exps.weight")) {
      tensors.push_back(tensor);
      continue;
    }
    const std::string layer = tensor.name.substr(0, tensor.name.find("ffn_"));
    tensor.shape[1] = tensor.source.shape.rows /= 2;
    tensor.name = layer + "ffn_gate_exps.weight";
    tensors.push_back(tensor);
    tensor.source.bytes += tensor.source.shape.rows * tensor.source.row_stride;
    tensor.name = layer + "ffn_up_exps.weight";
    tensors.push_back(tensor);
  }
  out.tensors = std::move(tensors);
  const Result<Model> again = open_model(written(out));
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_TRUE(again->unknown_tensors().empty());
  EXPECT_EQ(logits_of(*again), logits_of(model));
  const GgufExport second = *export_gguf(*again, Format::f32);
  EXPECT_EQ(find(second, "blk.0.ffn_down_exps.scale").shape, std::vector<int64_t>{6});
}

TEST_F(Export, AFusedQkvGivesTheSameLogits) {
  const Model model = model_of({});
  GgufExport out = *export_gguf(model, Format::f32);
  const auto fused = std::make_shared<std::string>();
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"})
    *fused += converted(find(out, name));
  std::erase_if(out.tensors, [](const auto& t) {
    return t.name == "blk.0.attn_q.weight" || t.name == "blk.0.attn_k.weight" || t.name == "blk.0.attn_v.weight";
  });
  const TensorSource source{.shape = {1, 128, 32},
                            .format = Format::f32,
                            .bytes = reinterpret_cast<const std::byte*>(fused->data()),
                            .expert_stride = fused->size(),
                            .row_stride = 128,
                            .owner = fused};
  out.tensors.push_back({"blk.0.attn_qkv.weight", {128, 32}, Format::f32, source});
  const Result<Model> again = open_model(written(out));
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(logits_of(*again), logits_of(model));
}

TEST_F(Export, WhichTensorsStayF32) {
  const Model model = model_of(like_26b());
  const GgufExport out = *export_gguf(model, Format::q8_0);
  EXPECT_EQ(find(out, "token_embd.weight").format, Format::q8_0);
  EXPECT_EQ(find(out, "blk.0.ffn_gate_up_exps.weight").format, Format::q8_0);
  EXPECT_EQ(find(out, "blk.0.ffn_down_exps.weight").format, Format::f16);  // rows of 16
  EXPECT_EQ(find(out, "blk.0.ffn_gate_inp.weight").format, Format::f32);
  EXPECT_EQ(find(out, "blk.0.ffn_gate_inp.scale").format, Format::f32);
  EXPECT_EQ(find(out, "blk.0.attn_norm.weight").format, Format::f32);
  EXPECT_EQ(find(out, "rope_freqs.weight").format, Format::f32);
  EXPECT_EQ(*find_key(out, "general.file_type"), GgufValue(uint32_t{7}));
  EXPECT_EQ(export_gguf(model, Format::q4_k).error().text, "cannot write q4_k: want one of f32, f16, bf16, q8_0");
}

TEST_F(Export, AGgufKeepsItsKeys) {
  const Result<Model> model = open_model(kMoeOfThePeer);
  ASSERT_TRUE(model) << model.error().text;
  const GgufExport out = *export_gguf(*model, Format::f16);
  const auto& entries = model->checkpoint().metadata().entries();
  ASSERT_EQ(out.keys.size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(out.keys[i].name, entries[i].name);
    if (entries[i].name == "general.file_type") continue;
    EXPECT_TRUE(out.keys[i].value == entries[i].value) << entries[i].name;
  }
  EXPECT_EQ(*find_key(out, "general.file_type"), GgufValue(uint32_t{1}));
}

TEST_F(Export, SuppressedTokensAreWritten) {
  put_model(TinyShape{});
  put("generation_config.json", R"({"suppress_tokens": [5, 7]})");
  const GgufExport out = *export_gguf(*open_model(folder_), Format::f32);
  EXPECT_EQ(*find_key(out, "tokenizer.ggml.suppress_tokens"), GgufValue(GgufArray<int32_t>{5, 7}));
}

TEST_F(Export, WrongKeysAreRefused) {
  const Model model = model_of({});
  const auto error_with = [&](const char* key, GgufValue value) {
    GgufExport out = *export_gguf(model, Format::f32);
    const auto entry = std::ranges::find(out.keys, key, &GgufMetadata::Entry::name);
    EXPECT_NE(entry, out.keys.end()) << key;
    entry->value = std::move(value);
    const std::string file = written(out);
    const Result<Model> again = open_model(file);
    return again ? "" : again.error().text.substr(file.size() + 2);
  };
  EXPECT_EQ(error_with("general.architecture", std::string("clip")),
            "general.architecture is clip: want one of gemma4");
  EXPECT_EQ(error_with("gemma4.block_count", uint32_t{0}), "gemma4.block_count is 0: want 1 to 512");
  EXPECT_EQ(error_with("gemma4.block_count", uint64_t{1} << 60), "gemma4.block_count is 1.15292e+18: want 1 to 512");
  EXPECT_EQ(error_with("gemma4.block_count", std::string("3")), "gemma4.block_count is string: want 1 to 512");
  EXPECT_EQ(error_with("gemma4.attention.head_count", int32_t{-4}),
            "gemma4.attention.head_count is -4: want 1 to 4096");
  EXPECT_EQ(error_with("gemma4.attention.sliding_window_pattern", GgufArray<bool>{true}),
            "gemma4.attention.sliding_window_pattern has 1 entries: want one for each of 3 layers");
  EXPECT_EQ(error_with("gemma4.attention.sliding_window_pattern", uint32_t{6}),
            "gemma4.attention.sliding_window_pattern is 6: want full_attention or sliding_attention");
  EXPECT_EQ(error_with("gemma4.attention.value_length", uint32_t{16}),
            "gemma4.attention.value_length is 16: want 32, the width of keys");
  EXPECT_EQ(error_with("gemma4.rope.freq_base", std::numeric_limits<float>::quiet_NaN()),
            "gemma4.rope.freq_base is nan: want 1 to 1000000000000");
}

TEST_F(Export, WrongRopeFactorsAreRefused) {
  const Model model = model_of({});
  GgufExport out = *export_gguf(model, Format::f32);
  std::erase_if(out.tensors, [](const auto& t) { return t.name == "rope_freqs.weight"; });
  std::string file = written(out);
  EXPECT_EQ(open_model(file).error().text, file + ": rope_freqs.weight is missing: want f32 [16]");
  out.tensors.push_back(tensor_of(std::vector<float>(16, 0.0f), 1, Format::f32));
  out.tensors.back().name = "rope_freqs.weight";
  out.tensors.back().shape = {16};
  file = written(out);
  EXPECT_EQ(open_model(file).error().text, file + ": rope_freqs.weight holds 0: want factors above 0");
}

TEST_F(Export, ValuesThatAFormatCannotHoldAreRefused) {
  std::vector<float> values(64, 1.0f);
  values[40] = 70000.0f;
  const WritePiece ignore = [](auto) { return Status(); };
  EXPECT_EQ(convert_rows(tensor_of(values, 2, Format::f16), ignore).error().text,
            "blk.0.attn_q.weight holds 70000: want magnitudes up to 65504 for f16");
  EXPECT_TRUE(convert_rows(tensor_of(values, 2, Format::bf16), ignore));
  values[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(convert_rows(tensor_of(values, 2, Format::q8_0), ignore).error().text,
            "blk.0.attn_q.weight holds nan: want magnitudes up to 8.31901e+06 for q8_0");
}

TEST_F(Export, RowsComeInBoundedPieces) {
  const std::vector<float> values(3 << 20, 0.5f);
  size_t total = 0, largest = 0;
  ASSERT_TRUE(convert_rows(tensor_of(values, 1 << 10, Format::bf16), [&](auto piece) {
    total += piece.size();
    largest = std::max(largest, piece.size());
    return Status();
  }));
  EXPECT_EQ(total, values.size() * 2);
  EXPECT_LE(largest, size_t{1} << 20);
}

TEST_F(Export, AFullDiskEndsIt) {
  const std::vector<float> values(3 << 20, 0.5f);
  int calls = 0;
  const Status status = convert_rows(tensor_of(values, 1 << 10, Format::f32), [&](auto) -> Status {
    ++calls;
    return error(ErrorKind::io, "out.gguf: cannot write: the disk is full");
  });
  EXPECT_EQ(status.error().text, "out.gguf: cannot write: the disk is full");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace sluice
