// i8: signed integers of 8 bits, one element a block. Files keep the scales in other tensors.
#pragma once

#include "format/format.h"

namespace sluice {

struct I8 {
  static constexpr Format kFormat = Format::i8;
  static constexpr const char* kName = "i8";
  static constexpr uint32_t kBlockElements = 1;
  static constexpr int kGgmlType = 24;
  static constexpr const char* kSafetensorsName = "I8";

  struct Block {
    int8_t q;
  };
  static_assert(sizeof(Block) == 1);

  static void decode(const Block& block, float* to) { *to = static_cast<float>(block.q); }
};

}  // namespace sluice
