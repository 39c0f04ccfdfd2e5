// f16: IEEE 754 binary16, one element a block.
#pragma once

#include "format/format.h"
#include "format/half.h"

namespace sluice {

struct F16 {
  static constexpr Format kFormat = Format::f16;
  static constexpr const char* kName = "f16";
  static constexpr uint32_t kBlockElements = 1;
  static constexpr int kGgmlType = 1;
  static constexpr const char* kSafetensorsName = "F16";
  static constexpr float kLargest = 65504.0f;

  struct Block {
    uint16_t bits;
  };
  static_assert(sizeof(Block) == 2);

  static void decode(const Block& block, float* to) { *to = f32_from_f16(block.bits); }
  static Block encode(const float* from) { return {f16_from_f32(*from)}; }
};

}  // namespace sluice
