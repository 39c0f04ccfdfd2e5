// "quantization_config" of a Hugging Face directory's config.json: which tool quantised the weights, and the parts of
// its layout that the tensors do not show.
//
//   {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true, "checkpoint_format": "gptq"}
//   {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": true}
//   {"quant_method": "auto-round", "bits": 4, "sym": true, "packing_format": "auto_round:auto_gptq"}
//   {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {...}}
//
// Bits and groups follow from the shapes of the tensors, even if they differ between modules. Source: transformers,
// GPTQModel, AutoAWQ, auto-round and compressed-tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace sluice {

// The layout of matrices in words of 32 bits under the name "qweight".
struct WordLayout {
  enum class Kind : uint8_t { gptq, awq };
  Kind kind{};
  bool symmetric = false;       // zero points are the middle value, whatever the file holds
  bool zeros_less_one = false;  // zero points are stored minus one
};

struct QuantizationConfig {
  std::string method;  // "gptq"; empty: not said
  uint32_t bits = 0;   // of most weights; 0: not said
  std::optional<WordLayout> words;

  // Fails for tools and layouts that are not supported. Every error begins with `where`.
  static Result<QuantizationConfig> read(const Json& config, const std::string& where);
};

}  // namespace sluice
