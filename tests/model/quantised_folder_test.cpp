// Directories that GPTQModel, AutoAWQ, auto-round, compressed-tensors and modelopt quantised, with a tensor an expert:
// their numbers are the formulas', whole models compute with them on every device, and what is not read is refused by
// name.
#include "tests/model/quantised_folder.h"

#include <gtest/gtest.h>

#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"

namespace sluice {
namespace {

using quantising::IntegerRules;
using quantising::Integers;
using quantising::QuantisedFolder;
using quantising::QuantisedScheme;
using quantising::Stored;
using quantising::stored;
using quantising::Tensors;

const std::string kGemma = SLUICE_TEST_DATA "/gemma4_moe";

QuantisedScheme scheme_of(const std::string& name) {
  const std::vector<QuantisedScheme> schemes = quantising::quantised_schemes();
  return *std::ranges::find(schemes, name, &QuantisedScheme::name);
}

std::vector<float> numbers_of(const TensorSource& source) {
  const WeightShape& shape = source.shape;
  std::vector<float> all(size_t{shape.experts} * shape.rows * shape.columns);
  for (size_t row = 0; row < size_t{shape.experts} * shape.rows; ++row)
    decode_weight_row(source, static_cast<uint32_t>(row / shape.rows), static_cast<uint32_t>(row % shape.rows),
                      all.data() + row * shape.columns);
  return all;
}

std::vector<float> logits_of(const Model& model, std::unique_ptr<Device> device) {
  Result<Program> program = model.record_text();
  EXPECT_TRUE(program) << program.error().text;
  TextBench bench(model, *std::move(program), 32, std::move(device));
  const std::vector<int32_t> tokens = {3, 14, 15, 42, 61, 35, 9, 27, 32, 38, 46, 26};
  return bench.play(tokens, {5, 11}, {find_value(bench.program(), "logits")})[0];
}

class QuantisedFolders : public tests::TinyModel {
 protected:
  Result<Model> open(const std::string& config, const Tensors& tensors, const std::string& name = "model") {
    const std::string folder = path(name);
    std::filesystem::create_directories(folder);
    quantising::write_folder(folder, config, tensors);
    return open_model(folder);
  }
  // Opens both and compares every weight.
  std::pair<Model, Model> open_both(const QuantisedFolder& folder) {
    Result<Model> quantised = open(folder.config, folder.quantised, "quantised");
    EXPECT_TRUE(quantised) << quantised.error().text;
    Result<Model> meaning = open(folder.meaning_config, folder.meaning, "meaning");
    EXPECT_TRUE(meaning) << meaning.error().text;
    EXPECT_EQ(quantised->unknown_tensors(), std::vector<std::string>{});
    for (const BoundWeight& weight : meaning->weights().all()) {
      const BoundWeight* found = quantised->weights().bound(weight.row.name);
      const bool equal = numbers_of(found->tensor) == numbers_of(weight.tensor);
      EXPECT_TRUE(equal) << weight.row.name;
    }
    return {*std::move(quantised), *std::move(meaning)};
  }
  // The sentence about a folder, without where it lies.
  std::string said(const std::string& config, const Tensors& tensors) {
    const Result<Model> model = open(config, tensors);
    return model ? std::string("opens") : model.error().text.substr(path("model").size());
  }
};

TEST_F(QuantisedFolders, LogitsAreThoseOfTheFormulasNumbers) {
  ThreadPool pool(2);
  for (const QuantisedScheme& scheme : quantising::quantised_schemes()) {
    SCOPED_TRACE(scheme.name);
    const auto [quantised, meaning] = open_both(quantising::quantise_gemma(kGemma, scheme));
    const std::vector<float> wanted = logits_of(meaning, make_reference_device());
    EXPECT_EQ(logits_of(quantised, make_reference_device()), wanted);
    EXPECT_GT(*std::ranges::max_element(wanted) - *std::ranges::min_element(wanted), 1.0f);
    EXPECT_EQ(logits_of(quantised, make_cpu_device({.pool = &pool})),
              logits_of(meaning, make_cpu_device({.pool = &pool})));
  }
}

TEST_F(QuantisedFolders, ExpertsMayStandBelowMoe) {
  open_both(quantising::quantise_gemma(kGemma, scheme_of("modelopt_nvfp4"), "moe.experts."));
}

// The first word by hand. GPTQ: eight neighbours of a row, lowest bits first, minus one more than the zero point that
// stands there. AWQ: bits 0 to 3 are row 0, 4 to 7 row 2, then 4, 6, 1, 3, 5, 7.
TEST_F(QuantisedFolders, WordsAreReadInTheirToolsOrder) {
  const auto first_row_or_column = [&](const char* name, uint32_t word, uint32_t zeros, bool of_row) {
    QuantisedFolder folder = quantising::quantise_gemma(kGemma, scheme_of(name));
    const std::string stem = "model.language_model.layers.0.mlp.up_proj";
    std::memcpy(folder.quantised[stem + ".qweight"].bytes.data(), &word, 4);
    std::memcpy(folder.quantised[stem + ".qzeros"].bytes.data(), &zeros, 4);
    for (char& byte : folder.quantised[stem + ".scales"].bytes) byte = 0;
    for (size_t i = 1; i < folder.quantised[stem + ".scales"].bytes.size(); i += 2)
      folder.quantised[stem + ".scales"].bytes[i] = 0x3c;  // 1 as f16
    const Model model = *open(folder.config, folder.quantised);
    const TensorSource source = *model.weights().find("layer.0.up_proj");
    const std::vector<float> all = numbers_of(source);
    std::vector<float> eight;
    for (size_t i = 0; i < 8; ++i) eight.push_back(all[of_row ? i : i * source.shape.columns]);
    return eight;
  };
  EXPECT_EQ(first_row_or_column("gptq", 0x76543210, 0x33333332, true), (std::vector<float>{-3, -2, -1, 0, 1, 2, 3, 4}));
  EXPECT_EQ(first_row_or_column("gptq_2", 0xfedcba98, 0x33333332, true),
            (std::vector<float>{6, 7, 8, 9, 10, 11, 12, 13}));
  EXPECT_EQ(first_row_or_column("awq", 0x75316420, 0x00000000, false), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(first_row_or_column("awq", 0x00000000, 0x75316420, false),
            (std::vector<float>{0, -1, -2, -3, -4, -5, -6, -7}));
}

// Stacked, with zero points packed expert by expert along the rows of gate and up.
TEST_F(QuantisedFolders, ExpertsInOneTensorHaveTheirZeroPoints) {
  QuantisedFolder folder = quantising::quantise_gemma(kGemma, scheme_of("packed_int4_group"));
  const std::string experts = "model.language_model.layers.0.experts.";
  std::erase_if(folder.quantised, [&](const auto& one) { return one.first.find(".experts.") != std::string::npos; });
  quantising::Random random;
  const Checkpoint checkpoint = *open_checkpoint(kGemma);
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (tensor.name.find(".experts.") == std::string::npos) continue;
    const quantising::Matrix whole = quantising::matrix_of(tensor);
    const auto rows = static_cast<uint32_t>(tensor.shape[1]);
    std::vector<float> means;
    for (uint32_t expert = 0; expert < tensor.shape[0]; ++expert) {
      Tensors one;
      const Integers integers =
          quantising::quantised(quantising::rows_of_matrix(whole, expert * rows, rows), {}, random);
      quantising::put_compressed(one, "x", integers, {});
      const std::vector<float> values = integers.meaning().values;
      means.insert(means.end(), values.begin(), values.end());
      for (auto& [name, part] : one) {
        if (name == "x.weight_shape") continue;
        Stored& all = folder.quantised[tensor.name + name.substr(std::string("x.weight").size())];
        all.dtype = part.dtype;
        all.bytes += part.bytes;
        all.shape = part.shape;
        all.shape.insert(all.shape.begin(), tensor.shape[0]);
      }
    }
    folder.meaning[tensor.name] = stored("F32", tensor.shape, means);
  }
  open_both(folder);
}

// Keys and values of latents: one matrix in the file, one a head in the program.
TEST_F(QuantisedFolders, HeadsShareOneMatrixInWords) {
  const std::string from = SLUICE_TEST_DATA "/deepseek_v3";
  for (const char* name : {"awq", "gptq_order", "packed_int4_group"}) {
    SCOPED_TRACE(name);
    const QuantisedScheme scheme = scheme_of(name);
    QuantisedFolder folder;
    folder.meaning_config = folder.config = *read_file(join_path(from, "config.json"), 1 << 20);
    folder.config.insert(folder.config.find('{') + 1, cat("\"quantization_config\": ", scheme.quantization, ", "));
    quantising::Random random;
    const Checkpoint checkpoint = *open_checkpoint(from);
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      const std::span<const std::byte> bytes = tensor.bytes;
      folder.meaning[tensor.name] = {format_info(tensor.format).safetensors_name,
                                     tensor.shape,
                                     {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
      if (!ends_with(tensor.name, "kv_b_proj.weight")) {
        folder.quantised[tensor.name] = folder.meaning[tensor.name];
        continue;
      }
      const std::string stem = tensor.name.substr(0, tensor.name.size() - std::string(".weight").size());
      const quantising::Matrix meaning = scheme.put(folder.quantised, stem, quantising::matrix_of(tensor), random);
      folder.meaning[tensor.name] = stored("F32", tensor.shape, meaning.values);
    }
    const auto [quantised, meant] = open_both(folder);
    EXPECT_EQ(logits_of(quantised, make_reference_device()), logits_of(meant, make_reference_device()));
  }
}

// --- tensors that are known and not used

TEST_F(QuantisedFolders, ScalesOfCachesAndOfUnusedLayersAreNoStrangers) {
  const tests::TinyShape shape = tests::like_e4b();
  put_model(shape);
  const Checkpoint checkpoint = *open_checkpoint(folder_);
  Tensors tensors;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    const std::span<const std::byte> bytes = tensor.bytes;
    tensors[tensor.name] = {"F32", tensor.shape, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  }
  const Stored one = stored("F32", {}, std::vector<float>{1});
  const std::string attention = "model.language_model.layers.8.self_attn.";  // a layer whose keys are another's
  for (const char* name : {"k_proj.k_scale", "v_proj.v_scale", "k_scale", "v_scale", "k_proj.weight_scale",
                           "k_proj.weight_packed", "v_proj.weight_scale_2", "v_proj.input_scale"})
    tensors[attention + name] = one;
  const std::string config = *read_file(path("config.json"), 1 << 20);
  const Result<Model> model = open(config, tensors);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->unknown_tensors(), std::vector<std::string>{});
}

TEST_F(QuantisedFolders, AMissingTensorIsNamedOnce) {
  QuantisedFolder folder = quantising::quantise_gemma(kGemma, scheme_of("gptq"));
  folder.meaning.erase("model.language_model.layers.1.experts.gate_up_proj");  // of gate and of up
  EXPECT_EQ(said(folder.meaning_config, folder.meaning),
            ": a tensor is missing: model.language_model.layers.1.experts.gate_up_proj");
}

// --- what is refused

TEST_F(QuantisedFolders, OtherToolsAreRefusedByName) {
  const QuantisedFolder folder = quantising::quantise_gemma(kGemma, scheme_of("gptq"));
  const auto with = [&](const std::string& quantization) {
    std::string config = folder.meaning_config;
    config.insert(config.find('{') + 1, cat("\"quantization_config\": ", quantization, ", "));
    return said(config, folder.meaning);
  };
  const std::string where = "/config.json: weights are quantised ";
  const std::string want = ": want compressed-tensors, modelopt, fp8, mxfp4, gptq, awq, auto-round or MLX";
  EXPECT_EQ(with(R"({"quant_method": "bitsandbytes", "load_in_4bit": true})"), where + "by bitsandbytes" + want);
  EXPECT_EQ(with(R"({"load_in_8bit": true})"), where + "by bitsandbytes" + want);
  EXPECT_EQ(with(R"({"quant_method": "quark"})"), where + "by quark" + want);
  EXPECT_EQ(with(R"({"quant_method": "hqq"})"), where + "by hqq" + want);
  EXPECT_EQ(with(R"({"quant_method": "awq", "version": "gemv"})"), where + "by awq as gemv: want version gemm");
  EXPECT_EQ(with(R"({"quant_method": "gptq", "checkpoint_format": "marlin"})"),
            where + "by gptq as marlin: want checkpoint_format gptq or gptq_v2");
  EXPECT_EQ(with(R"({"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq", "sym": false})"),
            where +
                "by auto-round as auto_round:auto_gptq with sym false: want auto_round:auto_gptq with sym true, or " +
                "auto_round:auto_awq");
  EXPECT_EQ(with(R"({"quant_method": "compressed-tensors", "format": "marlin-24"})"),
            where + "by compressed-tensors as marlin-24: want pack-, int-, float-, naive-, mxfp8-, mxfp4-pack- or " +
                "nvfp4-pack-quantized");
  EXPECT_EQ(with(R"({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}})"),
            where + "by compressed-tensors as sparse-24-bitmask: want weights that are not sparse");
  EXPECT_EQ(with(R"({"quant_method": "compressed-tensors", "transform_config":
                     {"config_groups": {"R4": {"apply": [{"location": "weight_input"}, {"location": "input"}]}}}})"),
            where + "with a transform of input: want no transform but of weights");
  EXPECT_EQ(with(R"({"quant_method": "modelopt"})"), "opens");
}

TEST_F(QuantisedFolders, WrongPartsAreOneSentence) {
  const std::string module = "model.language_model.layers.0.mlp.up_proj", file = "/model.safetensors: " + module;
  const auto with = [&](const char* scheme, const auto& change) {
    QuantisedFolder folder = quantising::quantise_gemma(kGemma, scheme_of(scheme));
    change(folder.quantised);
    return said(folder.config, folder.quantised);
  };
  const auto without = [&](const char* scheme, const char* part) {
    return with(scheme, [&](Tensors& tensors) { tensors.erase(module + part); });
  };
  const auto shaped = [&](const char* scheme, const char* part, std::vector<int64_t> shape) {
    return with(scheme, [&](Tensors& tensors) { tensors[module + part].shape = std::move(shape); });
  };
  EXPECT_EQ(without("gptq", ".scales"), file + ".qweight is quantised: want layers.0.mlp.up_proj.scales beside it");
  EXPECT_EQ(without("gptq", ".qzeros"), file + ".qweight is quantised: want layers.0.mlp.up_proj.qzeros beside it");
  EXPECT_EQ(without("gptq_symmetric", ".qzeros"), "opens");
  EXPECT_EQ(without("gptq", ".g_idx"), "opens");
  EXPECT_EQ(shaped("gptq", ".qweight", {16, 64}), file + ".qweight is i32 [16, 64], u8 [64, 64]: want [128, 64]");
  EXPECT_EQ(shaped("awq", ".qweight", {16, 64}), file + ".qweight is i32 [16, 64], u4 [512, 16]: want [128, 64]");
  EXPECT_EQ(shaped("gptq", ".scales", {1, 256}), file + ".scales is [1, 256]: want [groups, 128]");
  EXPECT_EQ(shaped("gptq", ".qzeros", {32, 1}), file + ".qzeros is i32 [32, 1]: want i32 [2, 16]");
  EXPECT_EQ(shaped("packed_int4_group", ".weight_zero_point", {32, 1}),
            file + ".weight_zero_point is [32, 1]: want zero points of 4 bits for groups of [1, 128, 64]");
  EXPECT_EQ(with("gptq_order",
                 [&](Tensors& tensors) {
                   const int32_t beyond = 4;
                   std::memcpy(tensors[module + ".g_idx"].bytes.data() + 4, &beyond, 4);
                 }),
            file + ".g_idx holds 4: want groups 0 to 3");
  EXPECT_EQ(with("gptq_symmetric", [&](Tensors& tensors) { tensors[module + ".qzeros"].bytes[0] = 0; }),
            file + ".qzeros holds zero points that are not the middle: want config.json's sym to be false");
  EXPECT_EQ(with("int8_asymmetric",
                 [&](Tensors& tensors) {
                   tensors[module + ".weight_zero_point"] = stored("F32", {}, std::vector<float>{1});
                 }),
            file + ".weight_zero_point is f32: want i8");
  EXPECT_EQ(
      with("modelopt_nvfp4",
           [&](Tensors& tensors) { tensors[module + ".pre_quant_scale"] = stored("F32", {}, std::vector<float>{1}); }),
      file + ".pre_quant_scale: activations are scaled before the product: want none");
  QuantisedFolder folder = quantising::quantise_gemma(kGemma, scheme_of("gptq"));
  EXPECT_EQ(
      said(folder.meaning_config, folder.quantised),
      "/model.safetensors: model.language_model.layers.0.self_attn.q_proj.qweight: config.json does not say how " +
          std::string("it is packed: want quantization_config with quant_method gptq or awq"));
}

}  // namespace
}  // namespace sluice
