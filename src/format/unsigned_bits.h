// u2 ... u6: unsigned integers of few bits, as MLX packs them into 32-bit words; and u8. Files keep the scales and
// offsets in other tensors.
//
//   uN, 32 elements
//     byte  0   u8    q[4 N]   one string of bits, lowest first: element j is bits N j to N j + N - 1
//         4 N
//   u8, 1 element
//
// Source: mlx, affine_quantize. Elements of 2, 4 and 8 bits fill words evenly; elements of 3, 5 and 6 bits straddle the
// borders of words. On a little-endian machine both are this string of bits.
#pragma once

#include "format/format.h"

namespace sluice {

template <Format kOwnFormat, uint32_t kBits>
struct UnsignedBits {
  static_assert(kBits >= 2 && kBits <= 6);
  static constexpr Format kFormat = kOwnFormat;
  static constexpr char kText[] = {'u', static_cast<char>('0' + kBits), '\0'};
  static constexpr const char* kName = kText;
  static constexpr uint32_t kBlockElements = 32;
  static constexpr int kGgmlType = -1;

  struct Block {
    uint8_t q[4 * kBits];
  };
  static_assert(sizeof(Block) == 4 * kBits);

  static void load16(const Block& block, uint32_t part, float* to) {
    const uint8_t* q = block.q + 2 * kBits * part;
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t byte = i * kBits / 8, shift = i * kBits % 8;
      uint32_t bits = q[byte];
      if (shift + kBits > 8) bits |= static_cast<uint32_t>(q[byte + 1]) << 8;
      to[i] = static_cast<float>(bits >> shift & ((1u << kBits) - 1));
    }
  }
};

using U2 = UnsignedBits<Format::u2, 2>;
using U3 = UnsignedBits<Format::u3, 3>;
using U4 = UnsignedBits<Format::u4, 4>;
using U5 = UnsignedBits<Format::u5, 5>;
using U6 = UnsignedBits<Format::u6, 6>;

struct U8 {
  static constexpr Format kFormat = Format::u8;
  static constexpr const char* kName = "u8";
  static constexpr uint32_t kBlockElements = 1;
  static constexpr int kGgmlType = -1;
  static constexpr const char* kSafetensorsName = "U8";

  struct Block {
    uint8_t q;
  };
  static_assert(sizeof(Block) == 1);

  static void decode(const Block& block, float* to) { *to = static_cast<float>(block.q); }
};

}  // namespace sluice
