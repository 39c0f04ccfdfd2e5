// Activations rounded to 8 bits in blocks of 32: q = x / scale, rounded to nearest, with scale = largest |x| / 127. A
// block also has the sums that formats with minima or unsigned integers need (product_8bit.h). With q as bytes, a block
// is a cache line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::cpu {

inline constexpr size_t kQuantElements = 32;

// A number that is not finite makes the block's scale NaN, and so every sum with that block.
template <class S>
struct QuantBlock {
  typename S::Quant q[kQuantElements];
  float scale;
  float sum;                    // scale * the sum of q
  float half_sums[2];           // the same of elements 0 to 15 and 16 to 31
  int32_t correction;           // -kOffset * the sum of q
  int32_t half_corrections[2];  // -kHalfOffset * the sums of the halves
  int32_t unused;
};

// Added to weights' integers if dot() takes them unsigned. With a scale for every 16 elements, integers have at most 6
// bits, so kHalfOffset is enough.
inline constexpr int kOffset = 128;
inline constexpr int kHalfOffset = 32;

template <class S>
struct Quantise {
  using F = typename S::F;
  using Block = QuantBlock<S>;

  // An odd number of blocks. With a large power of two, rows would evict each other from the cache.
  static uint64_t row_bytes(uint64_t columns) { return (columns / kQuantElements | 1) * sizeof(Block); }

  static void row(const float* x, std::byte* out, size_t columns) {
    auto* blocks = reinterpret_cast<Block*>(out);
    for (size_t b = 0; b < columns / kQuantElements; ++b) block(x + b * kQuantElements, blocks[b]);
  }

 private:
  static void block(const float* x, Block& block) {
    const F low = S::load(x), high = S::load(x + 16);
    const float largest = S::largest(S::max(S::abs(low), S::abs(high)));
    const F zero = S::splat(0.0f);
    const float nan_or_0 = S::sum(S::fma(high, zero, low * zero));
    const F inverse = S::splat(largest > 0x1p-120f ? 127.0f / largest : 0.0f);  // the inverse must be finite
    const F quants[] = {rounded(low * inverse), rounded(high * inverse)};
    block.scale = largest / 127.0f + nan_or_0;
    float sum = 0.0f;
    for (int half = 0; half < 2; ++half) {
      S::store_quants(block.q + 16 * half, quants[half]);
      const float half_sum = S::sum(quants[half]);  // exact
      block.half_sums[half] = block.scale * half_sum;
      block.half_corrections[half] = -kHalfOffset * static_cast<int32_t>(half_sum);
      sum += half_sum;
    }
    block.sum = block.scale * sum;
    block.correction = -kOffset * static_cast<int32_t>(sum);
    block.unused = 0;
  }
  // NaN becomes -127: max returns its second operand.
  static F rounded(F x) { return S::round(S::min(S::max(x, S::splat(-127.0f)), S::splat(127.0f))); }
};

}  // namespace sluice::cpu
