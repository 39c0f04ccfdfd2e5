// f32: IEEE 754 binary32, one element a block.
#pragma once

#include <limits>

#include "format/format.h"

namespace sluice {

struct F32 {
  static constexpr Format kFormat = Format::f32;
  static constexpr const char* kName = "f32";
  static constexpr uint32_t kBlockElements = 1;
  static constexpr int kGgmlType = 0;
  static constexpr const char* kSafetensorsName = "F32";
  static constexpr float kLargest = std::numeric_limits<float>::max();

  struct Block {
    float value;
  };
  static_assert(sizeof(Block) == 4);

  static void decode(const Block& block, float* to) { *to = block.value; }
  static Block encode(const float* from) { return {*from}; }
};

}  // namespace sluice
