// Views read weight formats sixteen elements at a time. Every kernel uses one view for each format. `k` is a multiple
// of 16, and `n` elements exist there. Decoding gives the bits of the format's own decoder.
//
//   kDecoded        the row is f32 already, so a panel is read in place
//   kWhole          rows are multiples of sixteen elements
//   kElementBytes   bytes of an element, for formats whose elements lie one by one
#pragma once

#include "device/cpu/kernels.h"
#include "format/q8_0.h"

namespace sluice::cpu {

template <class S>
struct F32View {
  static constexpr bool kDecoded = true, kWhole = false;
  static constexpr size_t kElementBytes = 4;
  static typename S::F load16(const std::byte* row, size_t k) { return S::load(row + 4 * k); }
  static typename S::F load16(const std::byte* row, size_t k, int n) { return S::load(row + 4 * k, n); }
};

template <class S>
struct F16View {
  static constexpr bool kDecoded = false, kWhole = false;
  static constexpr size_t kElementBytes = 2;
  static typename S::F load16(const std::byte* row, size_t k) { return S::load_f16(row + 2 * k); }
  static typename S::F load16(const std::byte* row, size_t k, int n) { return S::load_f16(row + 2 * k, n); }
};

template <class S>
struct Bf16View {
  static constexpr bool kDecoded = false, kWhole = false;
  static constexpr size_t kElementBytes = 2;
  static typename S::F load16(const std::byte* row, size_t k) { return S::load_bf16(row + 2 * k); }
  static typename S::F load16(const std::byte* row, size_t k, int n) { return S::load_bf16(row + 2 * k, n); }
};

template <class S>
struct Q8_0View {
  static constexpr bool kDecoded = false, kWhole = true;
  static_assert(Q8_0::kBlockElements == 32);
  static const std::byte* block(const std::byte* row, size_t k) { return row + k / 32 * sizeof(Q8_0::Block); }
  static const int8_t* quants(const std::byte* row, size_t k) {
    return reinterpret_cast<const int8_t*>(block(row, k) + offsetof(Q8_0::Block, q));
  }
  static const std::byte* scale(const std::byte* row, size_t k) { return block(row, k) + offsetof(Q8_0::Block, d); }

  static typename S::F load16(const std::byte* row, size_t k) {
    return S::load_i8(quants(row, k) + k % 32) * S::splat(S::f16(scale(row, k)));
  }
};

}  // namespace sluice::cpu
