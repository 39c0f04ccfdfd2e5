// Writes a safetensors file of f32 matrices. Source: the format page of huggingface/safetensors. The file appears under
// its name when it is complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sluice {

struct SavedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> numbers;
};

// `metadata`: the header's "__metadata__", in order.
Status write_safetensors(const std::string& path, std::span<const SavedTensor> tensors,
                         const std::vector<std::pair<std::string, std::string>>& metadata = {});

}  // namespace sluice
