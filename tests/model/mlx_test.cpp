// MLX directories: what families find in them under other names and in other forms, and what is refused. Their numbers
// are held by parts_test.cpp for every number of bits and group, and whole models by the goldens.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/model/quantised_folder.h"
#include "tests/model/tiny_model.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

const std::string kData = SLUICE_TEST_DATA "/";

using quantising::Stored;
using quantising::Tensors;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

Stored f32(std::vector<int64_t> shape, const std::vector<float>& values) {
  return {"F32", std::move(shape), bytes_of(values)};
}

Tensors tensors_of(const std::string& folder) {
  Tensors tensors;
  const Checkpoint checkpoint = *open_checkpoint(folder);
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    const std::span<const std::byte> bytes = tensor.bytes;
    tensors[tensor.name] = {format_info(tensor.format).safetensors_name,
                            tensor.shape,
                            {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  }
  return tensors;
}

std::vector<float> numbers_of(const Stored& tensor) {
  const Format format = *format_by_safetensors_name(tensor.dtype);
  std::vector<float> values(tensor.bytes.size() / row_bytes(format, 1));
  decode_row(format, reinterpret_cast<const std::byte*>(tensor.bytes.data()), values.data(), values.size());
  return values;
}

std::string text_of(const std::string& file) { return *read_file(file, 1 << 20); }

class Mlx : public tests::TinyModel {
 protected:
  Result<Model> open_with(const std::string& config, const Tensors& tensors) const {
    quantising::write_folder(folder_, config, tensors);
    return open_model(folder_);
  }
};

// --- what families find

// An unquantised MLX directory made of one of Hugging Face.
TEST_F(Mlx, QwensNormsConvolutionsAndExpertsHaveOtherForms) {
  const std::string from = kData + "qwen3_5_moe";
  const std::string prefix = "model.language_model.";
  Tensors mlx;
  for (const auto& [name, tensor] : tensors_of(from)) {
    std::vector<float> values = numbers_of(tensor);
    std::vector<int64_t> shape = tensor.shape;
    if (starts_with(name, "model.visual.")) continue;
    const bool inner = starts_with(name, prefix);
    const std::string own = inner ? "language_model.model." + name.substr(prefix.size()) : "language_model." + name;
    if (ends_with(name, "norm.weight") && name.find("linear_attn") == std::string::npos)
      for (float& value : values) value += 1.0f;
    if (ends_with(name, "conv1d.weight")) std::swap(shape[1], shape[2]);
    if (const size_t at = own.find("experts."); at != std::string::npos && own.find("shared") == std::string::npos) {
      const std::string stem = own.substr(0, at) + "switch_mlp.";
      if (ends_with(own, "down_proj")) {
        mlx[stem + "down_proj.weight"] = f32(shape, values);
        continue;
      }
      const size_t half = values.size() / static_cast<size_t>(shape[0]) / 2;
      std::vector<float> gate, up;
      gate.reserve(values.size() / 2);
      up.reserve(values.size() / 2);
      for (size_t i = 0; i < values.size(); ++i) (i / half % 2 == 0 ? gate : up).push_back(values[i]);
      shape[1] /= 2;
      mlx[stem + "gate_proj.weight"] = f32(shape, gate);
      mlx[stem + "up_proj.weight"] = f32(shape, up);
      continue;
    }
    mlx[own] = f32(shape, values);
  }
  const Result<Model> model = open_with(text_of(from + "/config.json"), mlx);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_TRUE(model->unread_tensors().empty());
  EXPECT_EQ(logits_of(*model), logits_of(*open_model(from)));
}

// GGUF holds norms and taps as MLX does, and value heads in its own order.
TEST_F(Mlx, QwenIsWrittenToGgufWithoutAddingOneAgain) {
  const std::string from = kData + "qwen3_5_moe_mlx2";
  const Model model = *open_model(from);
  const Model written = *open_model(written_gguf(*export_gguf(model, *find_mix("f32")), path("out.gguf")));
  const auto row = [](const Model& one, const char* name) {
    const TensorSource& tensor = one.weights().bound(name)->tensor;
    std::vector<float> values(tensor.shape.columns);
    decode_weight_row(tensor, 0, 0, values.data());
    return values;
  };
  for (const char* name : {"layer.0.input_norm", "layer.3.q_norm", "layer.0.delta_norm", "layer.0.conv1d"})
    EXPECT_EQ(row(written, name), row(model, name)) << name;
  EXPECT_EQ(row(model, "layer.0.input_norm"),
            numbers_of(tensors_of(from).at("language_model.model.layers.0.input_layernorm.weight")));
  const std::vector<float> got = logits_of(written), want = logits_of(model);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;  // heads are summed in another order
}

// kv_b of DeepSeek-V3: in one piece, plain or quantised, as older files have it; split.
class MlxLatents : public Mlx {
 protected:
  static constexpr uint32_t kHeads = 4, kNope = 64, kValue = 64, kLatent = 128, kRows = kHeads * (kNope + kValue);
  static constexpr uint32_t kGroup = 64, kGroups = kLatent / kGroup;

  static float number(uint32_t row, uint32_t column) {
    return static_cast<float>(code(row, column)) * scale(row, column / kGroup) + offset(row, column / kGroup);
  }
  static uint32_t code(uint32_t row, uint32_t column) { return (row * 7 + column * 5 + row * column) % 16; }
  static float scale(uint32_t row, uint32_t group) { return (row + group) % 2 == 0 ? 0x1p-6f : -0x1p-6f; }
  static float offset(uint32_t row, uint32_t group) { return -7.5f * scale(row, group); }

  // The model of tests/data with another kv_b in every layer.
  template <class Put>
  Result<Model> with(Put&& put_matrices) const {
    Tensors tensors = tensors_of(kFrom);
    std::erase_if(tensors, [](const auto& tensor) {
      return tensor.first.find("embed_q") != std::string::npos || tensor.first.find("unembed") != std::string::npos;
    });
    for (int layer = 0; layer < 3; ++layer) put_matrices(tensors, cat("model.layers.", layer, ".self_attn."));
    return open_with(text_of(kFrom + "/config.json"), tensors);
  }
  static uint32_t key_row(uint32_t head, uint32_t element) { return head * (kNope + kValue) + element; }

  const std::string kFrom = kData + "deepseek_v3_mlx4";
};

TEST_F(MlxLatents, MatricesMayBeSplitOrQuantisedInOnePiece) {
  const Result<Model> quantised = with([](Tensors& tensors, const std::string& stem) {
    std::vector<uint32_t> words(kRows * kLatent / 8);
    std::vector<float> scales, offsets;
    scales.reserve(size_t{kRows} * kGroups);
    offsets.reserve(size_t{kRows} * kGroups);
    for (uint32_t row = 0; row < kRows; ++row) {
      for (uint32_t i = 0; i < kLatent; ++i) words[(row * kLatent + i) / 8] |= code(row, i) << i % 8 * 4;
      for (uint32_t group = 0; group < kGroups; ++group) {
        scales.push_back(scale(row, group));
        offsets.push_back(offset(row, group));
      }
    }
    tensors[stem + "kv_b_proj.weight"] = {"U32", {kRows, kLatent / 8}, bytes_of(words)};
    tensors[stem + "kv_b_proj.scales"] = f32({kRows, kGroups}, scales);
    tensors[stem + "kv_b_proj.biases"] = f32({kRows, kGroups}, offsets);
  });
  ASSERT_TRUE(quantised) << quantised.error().text;
  EXPECT_TRUE(quantised->unread_tensors().empty());
  const std::vector<float> got = logits_of(*quantised);
  const Result<Model> plain = with([](Tensors& tensors, const std::string& stem) {
    std::vector<float> all;
    all.reserve(size_t{kRows} * kLatent);
    for (uint32_t row = 0; row < kRows; ++row)
      for (uint32_t i = 0; i < kLatent; ++i) all.push_back(number(row, i));
    tensors[stem + "kv_b_proj.weight"] = f32({kRows, kLatent}, all);
  });
  ASSERT_TRUE(plain) << plain.error().text;
  EXPECT_EQ(got, logits_of(*plain));
  const Result<Model> split = with([](Tensors& tensors, const std::string& stem) {
    std::vector<float> keys, values;
    keys.reserve(size_t{kHeads} * kLatent * kNope);
    values.reserve(size_t{kHeads} * kLatent * kValue);
    for (uint32_t head = 0; head < kHeads; ++head) {
      for (uint32_t i = 0; i < kLatent; ++i)
        for (uint32_t j = 0; j < kNope; ++j) keys.push_back(number(key_row(head, j), i));
      for (uint32_t j = 0; j < kValue; ++j)
        for (uint32_t i = 0; i < kLatent; ++i) values.push_back(number(key_row(head, kNope + j), i));
    }
    tensors[stem + "embed_q.weight"] = f32({kHeads, kLatent, kNope}, keys);
    tensors[stem + "unembed_out.weight"] = f32({kHeads, kValue, kLatent}, values);
  });
  ASSERT_TRUE(split) << split.error().text;
  const std::vector<float> want = logits_of(*split);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;  // sums in another order
}

// --- what is refused

class MlxMistakes : public Mlx {
 protected:
  MlxMistakes() : config_(text_of(kData + "parts/mlx/config.json")), tensors_(tensors_of(kData + "parts/mlx")) {}

  // Changes the first `from` of quantization, which follows its copy in quantization_config.
  std::string config_with(const std::string& from, const std::string& to) const {
    std::string changed = config_;
    const size_t at = changed.find(from, changed.find("\"quantization\":"));
    EXPECT_NE(at, std::string::npos) << from;
    return changed.replace(at, from.size(), to);
  }
  // The sentence without the folder.
  std::string said(const std::string& config, const Tensors& tensors) const {
    const Result<Model> model = open_with(config, tensors);
    return model ? std::string("opens") : model.error().text.substr(folder_.size());
  }
  std::string said(const std::string& from, const std::string& to) const {
    return said(config_with(from, to), tensors_);
  }
  std::string said(const std::string& tensor, const Stored& other) const {
    Tensors changed = tensors_;
    changed[tensor] = other;
    return said(config_, changed);
  }

  const std::string config_;
  const Tensors tensors_;
  const std::string layer_ = "language_model.model.layers.0.";
  const std::string query_ = layer_ + "self_attn.q_proj";  // 3 bits in groups of 128
};

TEST_F(MlxMistakes, OpensUnchanged) { EXPECT_EQ(said(config_, tensors_), "opens"); }

TEST_F(MlxMistakes, OfTheConfigurationAreOneSentence) {
  const std::string where = "/config.json: quantization";
  const auto quantization = [&](const char* text) {
    Json config = *parse_json(config_, "config.json");
    for (auto& [name, value] : config.as_object())
      if (name == "quantization") value = *parse_json(text, "quantization");
    return said(write_json(config), tensors_);
  };
  EXPECT_EQ(quantization("4"), where + " is 4: want an object");
  EXPECT_EQ(quantization(R"({"bits": 7})"), where + ".bits is 7: want 2, 3, 4, 5, 6, 8 in mode affine");
  EXPECT_EQ(quantization(R"({"bits": "4"})"), where + ".bits is \"4\": want 2, 3, 4, 5, 6, 8 in mode affine");
  EXPECT_EQ(quantization(R"({"group_size": 48})"), where + ".group_size is 48: want 64, 32, 128 in mode affine");
  EXPECT_EQ(quantization(R"({"mode": "mxfp4", "bits": 8})"), where + ".bits is 8: want 4 in mode mxfp4");
  EXPECT_EQ(quantization(R"({"mode": "nvfp4", "group_size": 32})"), where + ".group_size is 32: want 16 in mode nvfp4");
  EXPECT_EQ(quantization(R"({"mode": "awq"})"), where + ".mode is \"awq\": want affine, mxfp4, mxfp8 or nvfp4");
  EXPECT_EQ(quantization(R"({"model.a": {"bits": 1}})"),
            where + ".model.a.bits is 1: want 2, 3, 4, 5, 6, 8 in mode affine");
  EXPECT_EQ(quantization("null"),
            "/model.safetensors: language_model.model.embed_tokens.weight has scales beside it: "
            "want config.json's quantization to say in what groups");
}

TEST_F(MlxMistakes, OfShapesAreOneSentence) {
  const std::string file = "/model.safetensors: ";
  const Stored& codes = tensors_.at(query_ + ".weight");  // [32, 12]
  EXPECT_EQ(said(query_ + ".weight", {"U32", {64, 6}, codes.bytes}),
            file + query_ + ".weight is u32 [64, 6], u3 [64, 64]: want [32, 128]");
  EXPECT_EQ(said(query_ + ".weight", {"U32", {32, 11}, std::string(size_t{32} * 11 * 4, 'x')}),
            file + query_ + ".weight is u32 [32, 11], u3 [32, 117]: want [32, 128]");
  EXPECT_EQ(said(query_ + ".weight", {"I32", {32, 12}, codes.bytes}),
            file + query_ + ".weight is i32 with scales beside it: want u32");
  for (const char* part : {".scales", ".biases"}) {
    const Stored& numbers = tensors_.at(query_ + part);  // [32, 1]
    EXPECT_EQ(said(query_ + part, {"BF16", {1, 32}, numbers.bytes}),
              file + query_ + part + " is [1, 32]: want [32, 1], of groups of 128");
    EXPECT_EQ(said(query_ + part, {"U16", {32, 1}, numbers.bytes}), file + query_ + part + " is u16: want floats");
    EXPECT_EQ(said(query_ + part, {"U8", {32, 1}, std::string(32, 'x')}), file + query_ + part + " is u8: want floats");
  }
  const std::string down = layer_ + "mlp.down_proj";  // rows of 32 elements of 3 bits
  EXPECT_EQ(said("\"group_size\": 32,\n   \"bits\": 3", "\"group_size\": 64,\n   \"bits\": 3"),
            file + down +
                ".weight has rows of 32 elements: want whole groups of 64, which config.json's quantization "
                "says");
}

TEST_F(MlxMistakes, OfMissingTensorsAreOneSentence) {
  Tensors without = tensors_;
  without.erase(query_ + ".biases");
  EXPECT_EQ(said(config_, without), "/model.safetensors: " + query_ +
                                        ".weight is quantised in mode affine: want layers.0.self_attn.q_proj.biases "
                                        "beside it");
  without.erase(query_ + ".scales");
  EXPECT_EQ(said(config_, without), "/model.safetensors: " + query_ + ".weight is u32 [32, 12]: want [32, 128]");
}

// What an entry of another name leaves to the usual packing shows in the shapes.
TEST_F(MlxMistakes, OfAPathShowInTheShapes) {
  EXPECT_EQ(said(query_ + "\"", "model.layers.9.self_attn.q_proj\""),
            "/model.safetensors: " + query_ + ".weight is u32 [32, 12], u4 [32, 96]: want [32, 128]");
  EXPECT_EQ(said("vision_tower.dropped", "nobody.knows.it"), "opens");
}

// mlx-vlm moves modules and leaves their entries as they were.
TEST_F(MlxMistakes, OverridesSpelledByTheOtherPathWereNotFound) {
  for (const char* prefix : {"model.language_model.", "model.", "language_model.", ""})
    EXPECT_EQ(said(query_ + "\"", cat(prefix, "layers.0.self_attn.q_proj\"")), "opens") << prefix;
}

TEST_F(MlxMistakes, OverridesOfTwoSpellingsMayNotDiffer) {
  const std::string as_before = R"({"bits": 3, "group_size": 128})", other = R"({"bits": 8})";
  const auto with = [&](const std::string& first, const std::string& second) {
    return config_with(query_ + "\"", cat("model.layers.0.self_attn.q_proj\": ", first,
                                          ", \"layers.0.self_attn.q_proj\": ", second, ", \"somebody.else\""));
  };
  EXPECT_EQ(said(with(as_before, as_before), tensors_), "opens");
  EXPECT_EQ(said(with(as_before, other), tensors_),
            "/config.json: quantization says for " + query_ +
                " one thing as model.layers.0.self_attn.q_proj and another as layers.0.self_attn.q_proj: want one of "
                "them");
  // The spelling of the tensors counts before others.
  const std::string same =
      config_with(query_ + "\"", cat("model.layers.0.self_attn.q_proj\": ", other, ", \"", query_, "\""));
  EXPECT_EQ(said(same, tensors_), "opens");
}

TEST_F(MlxMistakes, OfNoQuantisationShowInTheShapes) {
  Json config = *parse_json(config_, "config.json");
  for (auto& [name, value] : config.as_object())
    if (name == "quantization") value = Json::Object{{query_, false}};
  EXPECT_EQ(said(write_json(config), tensors_),
            "/model.safetensors: language_model.model.embed_tokens.weight is u32 [32, 8], u4 [32, 64]: want [32, 128]");
}

}  // namespace
}  // namespace sluice
