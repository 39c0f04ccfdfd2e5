// GGUF files written from models: against the file llama.cpp wrote from the same model, and read back.
#include "model/export.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/gguf_writer.h"
#include "tests/model/tiny_model.h"
#include "tests/model/written_gguf.h"
#include "tests/reference_models.h"

namespace sluice {
namespace {

using tests::like_12b;
using tests::like_26b;
using tests::like_e4b;
using tests::TinyShape;

const std::string kMoe = std::string(SLUICE_TEST_DATA) + "/gemma4_moe";
const std::string kMoeOfThePeer = std::string(SLUICE_TEST_DATA) + "/peer/gemma4_moe-bf16.gguf";

std::string converted(const ExportTensor& tensor, uint32_t threads = 1) {
  std::string bytes;
  ThreadPool pool(threads);
  const Status status = convert_rows(tensor, pool, [&](std::span<const std::byte> piece) -> Status {
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

class Export : public tests::TinyModel {
 protected:
  std::string written(const GgufExport& out) const { return written_gguf(out, path("out.gguf")); }
  Model model_of(const TinyShape& shape) {
    put_model(shape);
    return *open_model(folder_);
  }
};

TEST_F(Export, EqualsTheFileOfLlamaCpp) {
  const Result<Model> model = open_model(kMoe);
  const Result<GgufExport> out = export_gguf(*model, *find_mix("bf16"));
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

// Root of the mean squared difference to what the weights are.
double error_of(Format format, const std::byte* bytes, const TensorSource& weights) {
  const uint32_t columns = weights.shape.columns;
  std::vector<float> wanted(columns), found(columns);
  double sum = 0;
  const uint64_t rows = uint64_t{weights.shape.experts} * weights.shape.rows;
  for (uint64_t row = 0; row < rows; ++row) {
    decode_row(weights.format, weights.bytes + row * weights.row_stride, wanted.data(), columns);
    decode_row(format, bytes + row * row_bytes(format, columns), found.data(), columns);
    for (uint32_t i = 0; i < columns; ++i) sum += std::pow(double{wanted[i]} - found[i], 2);
  }
  return std::sqrt(sum / static_cast<double>(rows * columns));
}

// Its files of the same weights: the same formats tensor by tensor, and errors within 2 % of its own.
TEST_F(Export, MixesEqualTheFilesOfLlamaCppsQuantiser) {
  const std::string models = reference_models();
  if (models.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: its quantised files were not compared";
  const std::pair<const char*, const char*> files[] = {
      {"gemma4", "q4_k_m"}, {"gemma4", "q6_k"}, {"gemma4_dense", "q4_k_m"}, {"gemma4_moe", "q4_k_m"}};
  for (const auto& [name, mix] : files) {
    const Result<Model> model = open_model(cat(models, "/", name));
    ASSERT_TRUE(model) << model.error().text;
    const GgufExport out = *export_gguf(*model, *find_mix(mix));
    const Result<Checkpoint> peer = open_checkpoint(cat(models, "/peer/", name, "-", mix, ".gguf"));
    ASSERT_TRUE(peer) << peer.error().text;
    EXPECT_EQ(*find_key(out, "general.file_type"), *peer->key("general.file_type"));
    EXPECT_EQ(*find_key(out, "general.quantization_version"), *peer->key("general.quantization_version"));
    ASSERT_EQ(out.tensors.size(), peer->tensors().size());
    for (const StoredTensor& theirs : peer->tensors()) {
      const ExportTensor& ours = find(out, theirs.name);
      ASSERT_STREQ(format_name(ours.format), format_name(theirs.format)) << name << ' ' << mix << ' ' << theirs.name;
      const std::string bytes = converted(ours);
      const double error = error_of(ours.format, reinterpret_cast<const std::byte*>(bytes.data()), ours.source);
      EXPECT_LE(error, 1.02 * error_of(theirs.format, theirs.bytes.data(), ours.source))
          << name << ' ' << mix << ' ' << theirs.name;
    }
  }
}

TEST_F(Export, SizeLabelsAreThoseOfLlamaCpp) {
  const std::string models = reference_models();
  if (models.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: its models were not counted";
  const std::pair<const char*, const char*> labels[] = {
      {"gemma4", "8.5M"}, {"gemma4_dense", "445K"}, {"gemma4_moe", "8x356K"}};
  for (const auto& [name, label] : labels) {
    const Result<Model> model = open_model(cat(models, "/", name));
    ASSERT_TRUE(model) << model.error().text;
    EXPECT_EQ(model->facts().size_label, label) << name;
  }
}

TEST_F(Export, ReadBackGivesTheSameLogits) {
  for (const TinyShape& shape : {like_e4b(), like_12b(), like_26b()}) {
    const Model model = model_of(shape);
    const Result<Model> again = open_model(written(*export_gguf(model, *find_mix("f32"))));
    ASSERT_TRUE(again) << again.error().text;
    EXPECT_TRUE(again->unknown_tensors().empty());
    EXPECT_EQ(logits_of(*again), logits_of(model));
  }
}

TEST_F(Export, OllamasNamesGiveTheSameLogits) {
  const Model model = model_of(like_26b());
  GgufExport out = *export_gguf(model, *find_mix("f32"));
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
  const GgufExport second = *export_gguf(*again, *find_mix("f32"));
  EXPECT_EQ(find(second, "blk.0.ffn_down_exps.scale").shape, std::vector<int64_t>{6});
}

TEST_F(Export, AFusedQkvGivesTheSameLogits) {
  const Model model = model_of({});
  GgufExport out = *export_gguf(model, *find_mix("f32"));
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

TEST_F(Export, SomeTensorsStayF32) {
  const Model model = model_of(like_26b());
  const GgufExport out = *export_gguf(model, *find_mix("q8_0"));
  EXPECT_EQ(find(out, "token_embd.weight").format, Format::q8_0);
  EXPECT_EQ(find(out, "blk.0.ffn_gate_up_exps.weight").format, Format::q8_0);
  EXPECT_EQ(find(out, "blk.0.ffn_down_exps.weight").format, Format::f16);  // rows of 16
  EXPECT_EQ(find(out, "blk.0.ffn_gate_inp.weight").format, Format::f32);
  EXPECT_EQ(find(out, "blk.0.ffn_gate_inp.scale").format, Format::f32);
  EXPECT_EQ(find(out, "blk.0.attn_norm.weight").format, Format::f32);
  EXPECT_EQ(find(out, "rope_freqs.weight").format, Format::f32);
  EXPECT_EQ(*find_key(out, "general.file_type"), GgufValue(uint32_t{7}));
}

TEST_F(Export, AGgufKeepsItsKeys) {
  const Result<Model> model = open_model(kMoeOfThePeer);
  ASSERT_TRUE(model) << model.error().text;
  const GgufExport out = *export_gguf(*model, *find_mix("f16"));
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
  const GgufExport out = *export_gguf(*open_model(folder_), *find_mix("f32"));
  EXPECT_EQ(*find_key(out, "tokenizer.ggml.suppress_tokens"), GgufValue(GgufArray<int32_t>{5, 7}));
}

TEST_F(Export, WrongKeysAreRefused) {
  const Model model = model_of({});
  const auto error_with = [&](const char* key, GgufValue value) {
    GgufExport out = *export_gguf(model, *find_mix("f32"));
    const auto entry = std::ranges::find(out.keys, key, &GgufMetadata::Entry::name);
    EXPECT_NE(entry, out.keys.end()) << key;
    entry->value = std::move(value);
    const std::string file = written(out);
    const Result<Model> again = open_model(file);
    return again ? "" : again.error().text.substr(file.size() + 2);
  };
  const std::string unknown = "towers for pictures and sounds (mmproj): want the model that they belong to";
  EXPECT_EQ(error_with("general.architecture", std::string("clip")).substr(0, unknown.size()), unknown);
  EXPECT_EQ(error_with("gemma4.block_count", uint32_t{0}), "gemma4.block_count is 0: want 1 to 512");
  EXPECT_EQ(error_with("gemma4.block_count", uint64_t{1} << 60), "gemma4.block_count is 1.15292e+18: want 1 to 512");
  EXPECT_EQ(error_with("gemma4.block_count", std::string("3")), "gemma4.block_count is string: want 1 to 512");
  EXPECT_EQ(error_with("gemma4.attention.head_count", int32_t{-4}),
            "gemma4.attention.head_count is -4: want 1 to 4096");
  EXPECT_EQ(error_with("gemma4.attention.sliding_window_pattern", GgufArray<bool>{true}),
            "gemma4.attention.sliding_window_pattern has 1 entries: want one for each of 3 layers");
  EXPECT_EQ(error_with("gemma4.attention.sliding_window_pattern", uint32_t{513}),
            "gemma4.attention.sliding_window_pattern is 513: want 0 to 512");
  EXPECT_EQ(error_with("gemma4.attention.value_length", uint32_t{16}),
            "gemma4.attention.value_length is 16: want 32, the width of keys");
  EXPECT_EQ(error_with("gemma4.rope.freq_base", std::numeric_limits<float>::quiet_NaN()),
            "gemma4.rope.freq_base is nan: want 1 to 1000000000000");
}

TEST_F(Export, WrongRopeFactorsAreRefused) {
  const Model model = model_of({});
  GgufExport out = *export_gguf(model, *find_mix("f32"));
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
  ThreadPool pool(2);
  std::vector<float> values(64, 1.0f);
  values[40] = 70000.0f;
  const WritePiece ignore = [](auto) { return Status(); };
  EXPECT_EQ(convert_rows(tensor_of(values, 2, Format::f16), pool, ignore).error().text,
            "blk.0.attn_q.weight holds 70000: want magnitudes up to 65504 for f16");
  EXPECT_TRUE(convert_rows(tensor_of(values, 2, Format::bf16), pool, ignore));
  values[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(convert_rows(tensor_of(values, 2, Format::q8_0), pool, ignore).error().text,
            "blk.0.attn_q.weight holds nan: want magnitudes up to 8.31901e+06 for q8_0");
}

TEST_F(Export, RowsComeInBoundedPieces) {
  ThreadPool pool(2);
  const std::vector<float> values(3 << 20, 0.5f);
  size_t total = 0, largest = 0;
  ASSERT_TRUE(convert_rows(tensor_of(values, 1 << 10, Format::bf16), pool, [&](auto piece) {
    total += piece.size();
    largest = std::max(largest, piece.size());
    return Status();
  }));
  EXPECT_EQ(total, values.size() * 2);
  EXPECT_LE(largest, size_t{1} << 20);
}

TEST_F(Export, BytesAreTheSameForAnyNumberOfThreads) {
  std::vector<float> values(300 * 512);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7919) % 1009) - 504.0f;
  for (const Format format : {Format::q4_k, Format::q8_0, Format::bf16, Format::f32}) {
    const std::string bytes = converted(tensor_of(values, 300, format));
    EXPECT_EQ(bytes.size(), 300 * row_bytes(format, 512));
    for (const uint32_t threads : {2u, 3u, 7u}) EXPECT_EQ(converted(tensor_of(values, 300, format), threads), bytes);
  }
}

// The first row that is wrong is the one reported, whichever thread meets one first.
TEST_F(Export, TheFirstWrongValueIsNamed) {
  ThreadPool pool(4);
  std::vector<float> values(64 * 32, 1.0f);
  for (size_t row = 3; row < 64; ++row) values[row * 32] = 70000.0f + 100.0f * static_cast<float>(row);
  // Several times, because chance decides which thread converts which rows.
  for (int time = 0; time < 200; ++time)
    ASSERT_EQ(convert_rows(tensor_of(values, 64, Format::f16), pool, [](auto) { return Status(); }).error().text,
              "blk.0.attn_q.weight holds 70300: want magnitudes up to 65504 for f16");
}

TEST_F(Export, AFullDiskEndsIt) {
  ThreadPool pool(2);
  const std::vector<float> values(3 << 20, 0.5f);
  int calls = 0;
  const Status status = convert_rows(tensor_of(values, 1 << 10, Format::f32), pool, [&](auto) -> Status {
    ++calls;
    return error(ErrorKind::io, "out.gguf: cannot write: the disk is full");
  });
  EXPECT_EQ(status.error().text, "out.gguf: cannot write: the disk is full");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace sluice
