// Names and formats of 4- and 8-bit integers that checkpoints pack into 32-bit words.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "checkpoint/checkpoint.h"

namespace sluice {

inline constexpr uint32_t kWordBits = 32;
inline constexpr std::string_view kPackedSuffix = "_packed";  // compressed-tensors: words hold neighbours of a row
inline constexpr std::string_view kWordsSuffix = ".qweight";  // GPTQ and AWQ: a matrix stored column by column
inline constexpr std::string_view kWeightSuffix = ".weight";

inline bool lies_in_words(const StoredTensor& tensor) { return ends_with(tensor.name, kWordsSuffix); }

inline Format format_of_bits(uint32_t bits) { return bits == 8 ? Format::u8 : Format::u4; }

}  // namespace sluice
