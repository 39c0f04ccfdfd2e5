// Weights whose scales lie in tensors of their own: read, converted and computed with. The checkpoints and the sums of
// their numbers are make_parts.py's, from the definitions of the formats.
#include "model/weight_parts.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/threads.h"
#include "checkpoint/gguf_writer.h"
#include "device/cpu/cpu.h"
#include "model/export.h"
#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"

namespace sluice {
namespace {

const std::string kParts = SLUICE_TEST_DATA "/parts/";

struct Scheme {
  const char* name;
  size_t matrices;  // in parts; gate and up of fp8_block's experts are one tensor
  const char* prefix = "model.language_model.";
};
constexpr Scheme kSchemes[] = {{"fp8_block", 10},
                               {"fp8_scaled", 7},
                               {"mxfp4", 7},
                               {"nvfp4", 7},
                               {"nvfp4_packed", 7},
                               {"int4", 7},
                               {"mlx", 22, "language_model.model."}};

uint32_t crc32(std::span<const float> values, uint32_t crc) {
  crc = ~crc;
  for (const std::byte byte : std::as_bytes(values)) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

uint32_t crc32(const TensorSource& source) {
  std::vector<float> row(source.shape.columns);
  uint32_t crc = 0;
  for (uint32_t expert = 0; expert < source.shape.experts; ++expert)
    for (uint32_t i = 0; i < source.shape.rows; ++i) {
      decode_weight_row(source, expert, i, row.data());
      crc = crc32(row, crc);
    }
  return crc;
}

std::vector<float> row_of(const TensorSource& source, uint32_t expert, uint32_t row) {
  std::vector<float> values(source.shape.columns);
  decode_weight_row(source, expert, row, values.data());
  return values;
}

const std::vector<int32_t> kTokens = {3, 14, 15, 42, 61, 35, 9, 27, 32, 38, 46, 26};

std::vector<float> logits_at(const Model& model, const std::vector<int32_t>& tokens = kTokens,
                             std::unique_ptr<Device> device = make_reference_device()) {
  Result<Program> program = model.record_text();
  EXPECT_TRUE(program) << program.error().text;
  TextBench bench(model, *std::move(program), 32, std::move(device));
  return bench.play(tokens, {5, 11}, {find_value(bench.program(), "logits")})[0];
}

class Parts : public tests::TinyModel {
 protected:
  Model converted(const Model& model, const char* mix) {
    const GgufExport out = *export_gguf(model, *find_mix(mix));
    GgufWriter writer;
    for (auto& key : out.keys) writer.add_key(key.name, key.value);
    for (const ExportTensor& tensor : out.tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
    Result<AtomicFile> file = AtomicFile::create(path("out.gguf"));
    EXPECT_TRUE(writer.begin(*file));
    ThreadPool pool(2);
    for (const ExportTensor& tensor : out.tensors) {
      const Status status = convert_rows(tensor, pool, [&](auto piece) { return writer.write(piece); });
      EXPECT_TRUE(status) << status.error().text;
    }
    writer.finish();
    EXPECT_TRUE(file->commit());
    return *open_model(path("out.gguf"));
  }
};

TEST_F(Parts, NumbersAreTheDefinitions) {
  for (const auto& [scheme, matrices, prefix] : kSchemes) {
    SCOPED_TRACE(scheme);
    const Result<Model> model = open_model(kParts + scheme);
    ASSERT_TRUE(model) << model.error().text;
    EXPECT_TRUE(model->unread_tensors().empty()) << model->unread_tensors()[0];
    const Json expected = *parse_json(*read_file(kParts + scheme + "/expected.json", 1 << 20), "expected.json");
    size_t seen = 0;
    for (const BoundWeight& weight : model->weights().all()) {
      if (weight.whole.parts.empty()) continue;
      const Json* crc = expected.find(prefix + weight.source.name);
      ASSERT_NE(crc, nullptr) << weight.source.name;
      EXPECT_EQ(crc32(weight.whole), static_cast<uint32_t>(crc->as_integer())) << weight.row.name;
      for (uint32_t row = 0; row < weight.tensor.shape.rows; ++row)  // a slice's blocks begin above it
        EXPECT_EQ(row_of(weight.tensor, weight.tensor.shape.experts - 1, row),
                  row_of(weight.whole, weight.tensor.shape.experts - 1, weight.source.first_row + row));
      ++seen;
    }
    EXPECT_EQ(seen, matrices);
  }
}

TEST_F(Parts, LogitsAreThoseOfTheDecodedFile) {
  ThreadPool pool(2);
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    const Model model = *open_model(kParts + scheme.name);
    const Model decoded = converted(model, "f32");
    std::vector<int32_t> tokens = kTokens;
    for (int32_t& token : tokens) token %= static_cast<int32_t>(model.facts().vocabulary);
    const std::vector<float> wanted = logits_at(decoded, tokens);
    EXPECT_EQ(logits_at(model, tokens), wanted);
    const auto cpu = [&](const Model& one) { return logits_at(one, tokens, make_cpu_device({.pool = &pool})); };
    EXPECT_EQ(cpu(model), cpu(decoded));
    EXPECT_GT(*std::ranges::max_element(wanted) - *std::ranges::min_element(wanted), 1.0f);
  }
}

TEST_F(Parts, ConvertToAnyMix) {
  for (const char* mix : {"bf16", "q8_0", "q4_k_m"}) {
    const Model model = converted(*open_model(kParts + "fp8_block"), mix);
    for (const BoundWeight& weight : model.weights().all()) EXPECT_TRUE(weight.tensor.parts.empty());
    const BoundWeight* gate = model.weights().bound("layer.0.gate_proj");
    ASSERT_NE(gate, nullptr);
    EXPECT_EQ(gate->tensor.format, *format_by_name(mix == std::string("q4_k_m") ? "q5_0" : mix));
  }
}

// nvfp4 in GGUF: the blocks hold 16-element scales, `.scale` one for all, and is not needed.
TEST_F(Parts, AGgufsNvfp4HasItsScaleBeside) {
  const Model model = *open_model(kParts + "nvfp4");
  GgufExport out = *export_gguf(model, *find_mix("f32"));
  const auto query = std::ranges::find(out.tensors, "blk.0.attn_output.weight", &ExportTensor::name);
  ASSERT_NE(query, out.tensors.end());
  const auto blocks = std::make_shared<std::vector<std::byte>>(row_bytes(Format::nvfp4, 160 * 128));
  for (size_t i = 0; i < blocks->size(); ++i) (*blocks)[i] = static_cast<std::byte>((i * 37 + 11) % 120);
  query->format = query->source.format = Format::nvfp4;
  query->source.bytes = blocks->data();
  query->source.row_stride = row_bytes(Format::nvfp4, 128);
  query->source.owner = blocks;
  query->source.parts.clear();
  const auto opened = [&](std::optional<float> scale) {
    GgufWriter writer;
    for (auto& key : out.keys) writer.add_key(key.name, key.value);
    for (const ExportTensor& tensor : out.tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
    if (scale) writer.add_tensor("blk.0.attn_output.scale", Format::f32, {1});
    Result<AtomicFile> file = AtomicFile::create(path("out.gguf"));
    EXPECT_TRUE(writer.begin(*file));
    ThreadPool pool(1);
    for (const ExportTensor& tensor : out.tensors)
      EXPECT_TRUE(convert_rows(tensor, pool, [&](auto piece) { return writer.write(piece); }));
    if (scale) EXPECT_TRUE(writer.write(std::as_bytes(std::span(&*scale, 1))));
    writer.finish();
    EXPECT_TRUE(file->commit());
    return *open_model(path("out.gguf"));
  };
  const Model plain = opened({}), scaled = opened(0.75f);
  EXPECT_TRUE(scaled.unread_tensors().empty());
  EXPECT_NE(plain.digest(), scaled.digest());
  std::vector<float> wanted = row_of(plain.weights().bound("layer.0.o_proj")->tensor, 0, 7);
  for (float& x : wanted) x *= 0.75f;
  EXPECT_EQ(row_of(scaled.weights().bound("layer.0.o_proj")->tensor, 0, 7), wanted);
  const Model decoded = converted(scaled, "f32");
  EXPECT_EQ(logits_at(scaled), logits_at(decoded));
}

// What files could say and must not be believed.
TEST_F(Parts, WrongPartsAreOneSentence) {
  const std::string folder = kParts + "fp8_block/";
  const std::string config = *read_file(folder + "config.json", 1 << 20);
  const std::string weights = *read_file(folder + "model.safetensors", 1 << 20);
  const std::string name = "model.language_model.layers.0.mlp.up_proj.weight";
  // Changes header text to other text of the same length.
  const auto said = [&](std::string from, const std::string& to, const std::string& changed_config) {
    std::string changed = weights;
    if (!from.empty()) changed.replace(changed.find(from), from.size(), to);
    put("config.json", changed_config);
    put("model.safetensors", changed);
    const Result<Model> model = open_model(folder_);
    return model ? std::string("opens") : model.error().text.substr(folder_.size());
  };
  EXPECT_EQ(said("", "", config), "opens");
  EXPECT_EQ(said(name + "_scale_inv", name + "_scale_xyz", config),
            "/model.safetensors: " + name +
                " is f8_e4m3 without its scales: want layers.0.mlp.up_proj.weight_scale_inv " + "or _scale beside it");
  const std::string side = "\"" + name + "_scale_inv\": {\"dtype\": \"F32\", \"shape\": ";
  EXPECT_EQ(said(side + "[2, 2]", side + "[4, 1]", config),
            "/model.safetensors: " + name +
                "_scale_inv is [4, 1]: want one scale a tensor, a row, a group of a row's " +
                "elements or 128 x 128 elements of [1, 160, 160]");
  EXPECT_EQ(said("\"" + name + "_scale_inv\": {\"dtype\": \"F32\"", "\"" + name + "_scale_inv\": {\"dtype\": \"I32\"",
                 config),
            "/model.safetensors: " + name + "_scale_inv is i32: want floats");
  std::string blocks = config;
  const size_t at = blocks.find("weight_block_size");
  blocks.replace(blocks.find("128", at), 3, "0");
  EXPECT_EQ(said("", "", blocks),
            ": config.json's quantization blocks are [0, 128]: want two whole numbers, 1 to 1048576");
}

TEST_F(Parts, GroupsOfAnotherShapeAreOneSentence) {
  const std::string folder = kParts + "int4/", name = "model.language_model.layers.0.mlp.up_proj.weight";
  std::string weights = *read_file(folder + "model.safetensors", 1 << 20);
  weights.replace(weights.find(name + "_shape"), name.size() + 6, name + "_g_idx");
  put("config.json", *read_file(folder + "config.json", 1 << 20));
  put("model.safetensors", weights);
  const Result<Model> model = open_model(folder_);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().text.substr(folder_.size()),
            "/model.safetensors: " + name + "_g_idx is i64 [2]: want i32 [160]");
}

}  // namespace
}  // namespace sluice
