// bf16: the upper half of an f32, one element a block.
#pragma once

#include "format/format.h"
#include "format/half.h"

namespace sluice {

struct Bf16 {
  static constexpr Format kFormat = Format::bf16;
  static constexpr const char* kName = "bf16";
  static constexpr uint32_t kBlockElements = 1;
  static constexpr int kGgmlType = 30;
  static constexpr const char* kSafetensorsName = "BF16";
  static constexpr float kLargest = f32_from_bf16(0x7f7f);

  struct Block {
    uint16_t bits;
  };
  static_assert(sizeof(Block) == 2);

  static void decode(const Block& block, float* to) { *to = f32_from_bf16(block.bits); }
  static Block encode(const float* from) { return {bf16_from_f32(*from)}; }
};

}  // namespace sluice
