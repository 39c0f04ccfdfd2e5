// Hugging Face directories whose matrices are integers or small floats with scales and zero points beside them, written
// as the tools that quantise lay them out, and the numbers that these mean. Nothing here is the code under test:
// packing follows the published packers of GPTQModel, AutoAWQ, compressed-tensors and modelopt.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"

namespace sluice::quantising {

struct Stored {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Stored>;

template <class T>
Stored stored(const char* dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape), {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}};
}

inline void write_folder(const std::string& folder, const std::string& config, const Tensors& tensors) {
  Json::Object header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const auto begin = static_cast<int64_t>(data.size());
    data += tensor.bytes;
    header.emplace_back(name, Json::Object{{"dtype", tensor.dtype},
                                           {"shape", Json::Array(tensor.shape.begin(), tensor.shape.end())},
                                           {"data_offsets", Json::Array{begin, static_cast<int64_t>(data.size())}}});
  }
  const std::string text = write_json(header);
  const uint64_t length = text.size();
  const std::string size(reinterpret_cast<const char*>(&length), sizeof length);
  (void)write_file(join_path(folder, "config.json"), config);
  (void)write_file(join_path(folder, "model.safetensors"), size + text + data);
}

// A matrix of floats, row by row.
struct Matrix {
  uint32_t rows = 0, columns = 0;
  std::vector<float> values;

  float at(uint32_t row, uint32_t column) const { return values[size_t{row} * columns + column]; }
};

struct Random {
  uint64_t state = 1;
  uint32_t below(uint32_t end) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state >> 33) % end);
  }
};

// --- small floats

// The nearest float that a sum of 11 bits, so f16 too, holds: scales of this kind are stored as f16, bf16 or f32.
inline float with_bits(float x, int bits) {
  int exponent = 0;
  const float fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

// A normal f16 for a positive number of at most 11 bits.
inline uint16_t f16_of(float x) {
  int exponent = 0;
  const float fraction = std::frexp(x, &exponent);  // x = fraction * 2^exponent, fraction in [0.5, 1)
  return static_cast<uint16_t>((exponent - 1 + 15) << 10 | (static_cast<uint32_t>(std::ldexp(fraction, 11)) & 0x3ff));
}

inline uint16_t bf16_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

inline float e4m3(uint32_t code) {
  const auto exponent = static_cast<int>(code >> 3 & 15);
  const auto mantissa = static_cast<float>(code & 7);
  const float size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code & 128 ? -size : size;
}

inline float e2m1(uint32_t code) {
  static constexpr float kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8 ? -1.0f : 1.0f) * kSizes[code & 7];
}

// The code of the nearest float, whose highest bit is `sign`.
inline uint8_t nearest(float x, uint32_t sign, float (*value)(uint32_t)) {
  uint32_t best = 0;
  for (uint32_t code = 1; code < sign; ++code)
    if (code != 127 && std::fabs(value(code) - std::fabs(x)) < std::fabs(value(best) - std::fabs(x))) best = code;
  return static_cast<uint8_t>(x < 0 ? best | sign : best);
}

// --- integers: (q - zero) * scale

struct Integers {
  uint32_t rows = 0, columns = 0, bits = 4, groups = 1;
  std::vector<uint32_t> q{};         // [rows][columns], 0 to 2^bits - 1
  std::vector<uint32_t> group_of{};  // [columns]
  std::vector<uint32_t> zero{};      // [rows][groups], 0 to 2^bits - 1
  std::vector<float> scale{};        // [rows][groups]

  Matrix meaning() const {
    Matrix matrix{rows, columns, {}};
    for (uint32_t row = 0; row < rows; ++row)
      for (uint32_t i = 0; i < columns; ++i) {
        const size_t group = size_t{row} * groups + group_of[i];
        const auto difference = static_cast<int32_t>(q[size_t{row} * columns + i]) - static_cast<int32_t>(zero[group]);
        matrix.values.push_back(static_cast<float>(difference) * scale[group]);
      }
    return matrix;
  }
};

struct IntegerRules {
  uint32_t bits = 4;
  uint32_t group = 32;     // columns; 0: a row
  bool one = false;        // one scale and zero point for all
  bool symmetric = false;  // zero points are the middle
  bool in_order = true;    // else columns of a group lie anywhere
  int scale_bits = 8;      // of the scale's fraction: 8 for bf16, 11 for f16
};

// Zero points are drawn from all there are, 0 and the last too, and what a row's range then cannot hold is cut off.
inline Integers quantised(const Matrix& from, const IntegerRules& rules, Random& random) {
  Integers to{.rows = from.rows, .columns = from.columns, .bits = rules.bits};
  const uint32_t group = rules.group == 0 ? from.columns : rules.group;
  const uint32_t most = (1u << rules.bits) - 1;
  to.groups = rules.one ? 1 : from.columns / group;
  for (uint32_t i = 0; i < from.columns; ++i)
    to.group_of.push_back(rules.one ? 0 : (rules.in_order ? i : (i * 7 + 3) % from.columns) / group);
  const auto drawn = [&] { return rules.symmetric ? (most + 1) / 2 : random.below(most + 1); };
  for (uint32_t i = 0; i < from.rows * to.groups; ++i) {
    to.zero.push_back(rules.one && i > 0 ? to.zero[0] : drawn());
    const float step = 2.0f / std::sqrt(static_cast<float>(from.columns)) / static_cast<float>(most);
    const float scale = step * (1.0f + static_cast<float>(random.below(1000)) / 1000.0f);
    to.scale.push_back(rules.one && i > 0 ? to.scale[0] : with_bits(scale, rules.scale_bits));
  }
  for (uint32_t row = 0; row < from.rows; ++row)
    for (uint32_t i = 0; i < from.columns; ++i) {
      const size_t group_at = size_t{row} * to.groups + to.group_of[i];
      const float steps = std::nearbyint(from.at(row, i) / to.scale[group_at]) + static_cast<float>(to.zero[group_at]);
      to.q.push_back(static_cast<uint32_t>(std::clamp(steps, 0.0f, static_cast<float>(most))));
    }
  return to;
}

// Words of 32 bits along the first or the second dimension of [outer][inner] numbers; number `order[i]` of each run
// comes i-th, from the lowest bits; the last run is filled up with zeros.
struct Words {
  uint32_t bits = 4;
  std::vector<uint32_t> order = {0, 1, 2, 3, 4, 5, 6, 7};

  std::vector<uint32_t> along_outer(const std::vector<uint32_t>& numbers, size_t inner) const {
    const size_t in_word = 32 / bits, outer = numbers.size() / inner;
    std::vector<uint32_t> words((outer + in_word - 1) / in_word * inner);
    for (size_t word = 0; word * in_word < outer; ++word)
      for (size_t i = 0; i < in_word; ++i)
        for (size_t j = 0; j < inner; ++j) {
          const size_t at = word * in_word + order[i];
          if (at < outer) words[word * inner + j] |= numbers[at * inner + j] << i * bits;
        }
    return words;
  }
  std::vector<uint32_t> along_inner(const std::vector<uint32_t>& numbers, size_t inner) const {
    const size_t in_word = 32 / bits;
    std::vector<uint32_t> words;
    for (size_t begin = 0; begin < numbers.size(); begin += inner)
      for (size_t j = 0; j < inner; j += in_word) {
        uint32_t word = 0;
        for (size_t i = 0; i < in_word && j + order[i] < inner; ++i) word |= numbers[begin + j + order[i]] << i * bits;
        words.push_back(word);
      }
    return words;
  }
};

template <class T>
std::vector<T> turned(const std::vector<T>& numbers, size_t inner) {
  std::vector<T> out;
  for (size_t j = 0; j < inner; ++j)
    for (size_t i = j; i < numbers.size(); i += inner) out.push_back(numbers[i]);
  return out;
}

template <class T, class From>
std::vector<T> as(const std::vector<From>& numbers) {
  std::vector<T> out;
  for (const From& number : numbers) out.push_back(static_cast<T>(number));
  return out;
}

inline std::vector<uint16_t> halves_of(const std::vector<float>& numbers, uint16_t (*half)(float)) {
  std::vector<uint16_t> out;
  for (const float number : numbers) out.push_back(half(number));
  return out;
}

// `stem` is the module's path, "model.layers.0.mlp.up_proj". Before version 2 GPTQModel takes one from every zero point
// of a word at once, so that a zero point of 0 borrows from its neighbour.
inline void put_gptq(Tensors& to, const std::string& stem, const Integers& from, bool version_2) {
  const uint32_t in_word = 32 / from.bits, one_each = from.bits == 8 ? 0x01010101u : 0x11111111u;
  const Words words{.bits = from.bits};
  std::vector<uint32_t> zeros = words.along_inner(turned(from.zero, from.groups), from.rows);
  if (!version_2)
    for (uint32_t& word : zeros) word -= one_each;
  to[stem + ".qweight"] =
      stored("I32", {from.columns / in_word, from.rows}, words.along_outer(turned(from.q, from.columns), from.rows));
  to[stem + ".qzeros"] = stored("I32", {from.groups, from.rows / in_word}, zeros);
  to[stem + ".scales"] = stored("F16", {from.groups, from.rows}, halves_of(turned(from.scale, from.groups), f16_of));
  to[stem + ".g_idx"] = stored("I32", {from.columns}, from.group_of);
}

inline void put_awq(Tensors& to, const std::string& stem, const Integers& from) {
  const Words words{.order = {0, 2, 4, 6, 1, 3, 5, 7}};
  to[stem + ".qweight"] =
      stored("I32", {from.columns, from.rows / 8}, words.along_inner(turned(from.q, from.columns), from.rows));
  to[stem + ".qzeros"] =
      stored("I32", {from.groups, from.rows / 8}, words.along_inner(turned(from.zero, from.groups), from.rows));
  to[stem + ".scales"] = stored("F16", {from.groups, from.rows}, halves_of(turned(from.scale, from.groups), f16_of));
}

// compressed-tensors: integers have signs, and 2^(bits - 1) is added before they are packed.
struct CompressedRules {
  bool packed = true;      // pack-quantized, else one a byte
  bool zero_point = true;  // else symmetric
  bool one = false;        // strategy "tensor"
  bool order = false;      // weight_g_idx
};

inline void put_compressed(Tensors& to, const std::string& stem, const Integers& from, const CompressedRules& rules) {
  const uint32_t in_word = 32 / from.bits;
  const int32_t middle = 1 << (from.bits - 1);
  const Words words{.bits = from.bits};
  const std::string name = stem + ".weight";
  const auto with_sign = [&](const std::vector<uint32_t>& numbers) {
    std::vector<int8_t> out;
    for (const uint32_t number : numbers) out.push_back(static_cast<int8_t>(static_cast<int32_t>(number) - middle));
    return out;
  };
  if (rules.packed) {
    to[name + "_packed"] = stored("I32", {from.rows, from.columns / in_word}, words.along_inner(from.q, from.columns));
    to[name + "_shape"] = stored("I64", {2}, std::vector<int64_t>{from.rows, from.columns});
  } else {
    to[name] = stored("I8", {from.rows, from.columns}, with_sign(from.q));
  }
  if (rules.one) {
    to[name + "_scale"] = stored("BF16", {1}, halves_of({from.scale[0]}, bf16_of));
    if (rules.zero_point) to[name + "_zero_point"] = stored("I8", {1}, with_sign({from.zero[0]}));
  } else {
    to[name + "_scale"] = stored("BF16", {from.rows, from.groups}, halves_of(from.scale, bf16_of));
    if (rules.zero_point && rules.packed)
      to[name + "_zero_point"] =
          stored("I32", {(from.rows + in_word - 1) / in_word, from.groups}, words.along_outer(from.zero, from.groups));
    else if (rules.zero_point)
      to[name + "_zero_point"] = stored("I8", {from.rows, from.groups}, with_sign(from.zero));
  }
  if (rules.order) to[name + "_g_idx"] = stored("I32", {from.columns}, from.group_of);
}

// --- NVFP4 and FP8

// modelopt's, or compressed-tensors' with the reciprocal of the tensor's scale. 16 elements share an e4m3.
inline Matrix put_nvfp4(Tensors& to, const std::string& stem, const Matrix& from, bool reciprocal) {
  float largest = 0;
  for (const float x : from.values) largest = std::fmax(largest, std::fabs(x));
  const float whole = largest / (6.0f * 448.0f);
  const float kept = reciprocal ? 1.0f / whole : whole;
  std::vector<uint8_t> scales, codes;
  Matrix meaning{from.rows, from.columns, {}};
  for (size_t begin = 0; begin < from.values.size(); begin += 16) {
    float most = 0;
    for (size_t i = begin; i < begin + 16; ++i) most = std::fmax(most, std::fabs(from.values[i]));
    scales.push_back(nearest(most / 6.0f / whole, 128, e4m3));
    const float block = e4m3(scales.back());
    for (size_t i = begin; i < begin + 16; ++i) {
      const uint8_t code = block == 0 ? 0 : nearest(from.values[i] / (block * whole), 8, e2m1);
      if (i % 2 == 0)
        codes.push_back(code);
      else
        codes.back() |= static_cast<uint8_t>(code << 4);
      const float step = e2m1(code) * block;
      meaning.values.push_back((reciprocal ? step / kept : step * kept) + 0.0f);
    }
  }
  const std::string name = stem + ".weight";
  to[name + (reciprocal ? "_packed" : "")] = stored("U8", {from.rows, from.columns / 2}, codes);
  to[name + "_scale"] = stored("F8_E4M3", {from.rows, from.columns / 16}, scales);
  to[name + (reciprocal ? "_global_scale" : "_scale_2")] =
      stored("F32", reciprocal ? std::vector<int64_t>{1} : std::vector<int64_t>{}, std::vector<float>{kept});
  to[stem + (reciprocal ? ".input_global_scale" : ".input_scale")] =
      stored("F32", {}, std::vector<float>{0.5f});  // of activations
  return meaning;
}

inline Matrix put_fp8(Tensors& to, const std::string& stem, const Matrix& from) {
  float largest = 0;
  for (const float x : from.values) largest = std::fmax(largest, std::fabs(x));
  const float scale = largest / 448.0f;
  std::vector<uint8_t> codes;
  Matrix meaning{from.rows, from.columns, {}};
  for (const float x : from.values) {
    codes.push_back(nearest(x / scale, 128, e4m3));
    meaning.values.push_back(e4m3(codes.back()) * scale);
  }
  to[stem + ".weight"] = stored("F8_E4M3", {from.rows, from.columns}, codes);
  to[stem + ".weight_scale"] = stored("F32", {}, std::vector<float>{scale});
  to[stem + ".input_scale"] = stored("F32", {}, std::vector<float>{0.5f});
  return meaning;
}

// --- a whole model

// Writes the tensors of a module and returns the numbers that they mean.
using PutMatrix = std::function<Matrix(Tensors& to, const std::string& stem, const Matrix& from, Random& random)>;

struct QuantisedScheme {
  const char* name;
  const char* quantization;  // config.json's quantization_config
  PutMatrix put;
};

inline PutMatrix by_gptq(const IntegerRules& rules, bool version_2) {
  return [=](Tensors& to, const std::string& stem, const Matrix& from, Random& random) {
    const Integers integers = quantised(from, rules, random);
    put_gptq(to, stem, integers, version_2);
    return integers.meaning();
  };
}

inline PutMatrix by_awq(const IntegerRules& rules) {
  return [=](Tensors& to, const std::string& stem, const Matrix& from, Random& random) {
    const Integers integers = quantised(from, rules, random);
    put_awq(to, stem, integers);
    return integers.meaning();
  };
}

inline PutMatrix by_compressed_tensors(const IntegerRules& rules, const CompressedRules& packing) {
  return [=](Tensors& to, const std::string& stem, const Matrix& from, Random& random) {
    const Integers integers = quantised(from, rules, random);
    put_compressed(to, stem, integers, packing);
    return integers.meaning();
  };
}

inline std::vector<QuantisedScheme> quantised_schemes() {
  const auto nvfp4 = [](bool reciprocal) {
    return [=](Tensors& to, const std::string& stem, const Matrix& from, Random&) {
      return put_nvfp4(to, stem, from, reciprocal);
    };
  };
  const auto fp8 = [](Tensors& to, const std::string& stem, const Matrix& from, Random&) {
    return put_fp8(to, stem, from);
  };
  const char* const packed = R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})";
  const char* const plain = R"({"quant_method": "compressed-tensors", "format": "int-quantized"})";
  const char* const naive = R"({"quant_method": "compressed-tensors", "format": "naive-quantized"})";
  const char* const gptq = R"({"quant_method": "gptq", "sym": false, "checkpoint_format": "gptq"})";
  const char* const gptq_2 = R"({"quant_method": "gptq", "sym": false, "checkpoint_format": "gptq_v2"})";
  const char* const gptq_symmetric = R"({"quant_method": "gptq", "sym": true, "checkpoint_format": "gptq"})";
  const char* const awq = R"({"quant_method": "awq", "bits": 4, "version": "gemm", "zero_point": true})";
  return {
      {"modelopt_nvfp4", R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})", nvfp4(false)},
      {"modelopt_fp8", R"({"quant_method": "modelopt", "quant_algo": "FP8"})", fp8},
      {"compressed_nvfp4", R"({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"})", nvfp4(true)},
      {"packed_int4_group", packed, by_compressed_tensors({}, {})},
      {"packed_int4_channel", packed, by_compressed_tensors({.group = 0}, {})},
      {"packed_int4_tensor", packed, by_compressed_tensors({.one = true}, {.one = true})},
      {"packed_int4_order", packed, by_compressed_tensors({.group = 16, .in_order = false}, {.order = true})},
      {"packed_int8_group", packed, by_compressed_tensors({.bits = 8}, {})},
      {"packed_int8_symmetric", packed,
       by_compressed_tensors({.bits = 8, .group = 0, .symmetric = true}, {.zero_point = false})},
      {"int8_channel", plain,
       by_compressed_tensors({.bits = 8, .group = 0, .symmetric = true}, {.packed = false, .zero_point = false})},
      {"int8_asymmetric", plain, by_compressed_tensors({.bits = 8, .group = 0}, {.packed = false})},
      {"int8_tensor", plain, by_compressed_tensors({.bits = 8, .one = true}, {.packed = false, .one = true})},
      {"int8_naive_group", naive, by_compressed_tensors({.bits = 8}, {.packed = false})},
      {"gptq_symmetric", gptq_symmetric, by_gptq({.symmetric = true, .scale_bits = 11}, false)},
      {"gptq_symmetric_zeros_of_2", gptq_symmetric, by_gptq({.symmetric = true, .scale_bits = 11}, true)},
      {"gptq", gptq, by_gptq({.scale_bits = 11}, false)},
      {"gptq_2", gptq_2, by_gptq({.scale_bits = 11}, true)},
      {"gptq_order", gptq, by_gptq({.group = 16, .in_order = false, .scale_bits = 11}, false)},
      {"gptq_8_bits", gptq, by_gptq({.bits = 8, .scale_bits = 11}, false)},
      {"gptq_row", gptq, by_gptq({.group = 0, .scale_bits = 11}, false)},
      {"awq", awq, by_awq({.scale_bits = 11})},
      {"auto_round", R"({"quant_method": "auto-round", "sym": true, "packing_format": "auto_round:auto_gptq"})",
       by_gptq({.symmetric = true, .scale_bits = 11}, false)},
      {"auto_round_awq", R"({"quant_method": "auto-round", "packing_format": "auto_round:auto_awq"})",
       by_awq({.scale_bits = 11})},
  };
}

inline Matrix matrix_of(const StoredTensor& tensor) {
  const auto rows =
      static_cast<uint32_t>(tensor.shape.size() == 3 ? tensor.shape[0] * tensor.shape[1] : tensor.shape[0]);
  const auto columns = static_cast<uint32_t>(tensor.shape.back());
  Matrix matrix{rows, columns, std::vector<float>(size_t{rows} * columns)};
  decode_row(tensor.format, tensor.bytes.data(), matrix.values.data(), matrix.values.size());
  return matrix;
}

inline Matrix rows_of_matrix(const Matrix& from, uint32_t first, uint32_t count) {
  const auto begin = from.values.begin() + static_cast<ptrdiff_t>(size_t{first} * from.columns);
  return {count, from.columns, {begin, begin + static_cast<ptrdiff_t>(size_t{count} * from.columns)}};
}

// Gemma 4's directory with every matrix of its layers quantised, experts one tensor each; and in `meaning` the same
// directory with the numbers that these mean, as F32. `experts` is what stands before an expert's number.
struct QuantisedFolder {
  Tensors quantised, meaning;
  std::string config, meaning_config;
};

inline QuantisedFolder quantise_gemma(const std::string& from, const QuantisedScheme& scheme,
                                      const std::string& experts = "experts.") {
  QuantisedFolder out;
  out.meaning_config = *read_file(join_path(from, "config.json"), 1 << 20);
  out.config = out.meaning_config;
  out.config.insert(out.config.find('{') + 1, cat("\"quantization_config\": ", scheme.quantization, ", "));
  Random random;
  const Checkpoint checkpoint = *open_checkpoint(from);
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    const std::span<const std::byte> bytes = tensor.bytes;
    const bool projection = tensor.name.find("_proj") != std::string::npos;
    if (!projection) {
      const Stored copied{format_info(tensor.format).safetensors_name,
                          tensor.shape,
                          {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
      out.quantised[tensor.name] = out.meaning[tensor.name] = copied;
      continue;
    }
    const Matrix whole = matrix_of(tensor);
    std::vector<float> means;
    const auto put = [&](const std::string& stem, const Matrix& matrix) {
      const Matrix meaning = scheme.put(out.quantised, stem, matrix, random);
      means.insert(means.end(), meaning.values.begin(), meaning.values.end());
    };
    const size_t at = tensor.name.find("experts.");
    if (at == std::string::npos) {
      put(tensor.name.substr(0, tensor.name.size() - std::string(".weight").size()), whole);
    } else {
      const std::string part = tensor.name.substr(at + std::string("experts.").size());
      const auto rows = static_cast<uint32_t>(tensor.shape[1]);
      for (uint32_t expert = 0; expert < tensor.shape[0]; ++expert) {
        const std::string stem = cat(tensor.name.substr(0, at), experts, expert, ".");
        if (part == "gate_up_proj") {
          put(stem + "gate_proj", rows_of_matrix(whole, expert * rows, rows / 2));
          put(stem + "up_proj", rows_of_matrix(whole, expert * rows + rows / 2, rows / 2));
        } else {
          put(stem + part, rows_of_matrix(whole, expert * rows, rows));
        }
      }
    }
    out.meaning[tensor.name] = stored("F32", tensor.shape, means);
  }
  return out;
}

}  // namespace sluice::quantising
