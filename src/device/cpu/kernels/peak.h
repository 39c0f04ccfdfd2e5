// Measures an instruction set's peak rate of multiplications and additions, with a product's tile of accumulators in
// registers and operands in the nearest cache. `sluice bench --ops` compares products with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::cpu {

template <class S>
struct Peak {
  using F = typename S::F;
  using I = typename S::I;
  static constexpr size_t kTile = static_cast<size_t>(S::kTileWeights) * static_cast<size_t>(S::kTileRows);
  static constexpr size_t kOperands = 8;

  // Updates each accumulator of a tile so many times: `flops_f32` a round. The result keeps the compiler from removing
  // the work.
  static float f32(size_t rounds) {
    alignas(64) float numbers[kOperands * 16];
    for (size_t i = 0; i < kOperands * 16; ++i) numbers[i] = 1.0f / static_cast<float>(i + 1);
    F sums[kTile];
    for (size_t i = 0; i < kTile; ++i) sums[i] = S::splat(static_cast<float>(i));
    const F factor = S::splat(0.5f);
    for (size_t round = 0; round < rounds; ++round) {
      const F x = S::load(numbers + round % kOperands * 16);
      for (F& sum : sums) sum = S::fma(x, factor, sum);
    }
    float all = 0;
    for (const F& sum : sums) all += S::sum(sum);
    return all;
  }
  static constexpr uint64_t kF32Flops = kTile * 16 * 2;

  // The same with small integers. No accumulator overflows in 2^24 rounds.
  static float integers(size_t rounds) {
    typename S::Quant numbers[kOperands * S::kDotElements];
    for (size_t i = 0; i < kOperands * S::kDotElements; ++i) numbers[i] = static_cast<typename S::Quant>(i % 2);
    I sums[kTile];
    for (size_t i = 0; i < kTile; ++i) sums[i] = S::splat(static_cast<int32_t>(i));
    const I weights = S::splat(S::kDotElements == 4 ? 0x01010101 : 0x00010001);
    for (size_t round = 0; round < rounds; ++round) {
      const I x = S::splat_group(numbers + round % kOperands * S::kDotElements);
      for (I& sum : sums) sum = S::dot(sum, weights, x);
    }
    float all = 0;
    for (const I& sum : sums) all += S::sum(S::to_float(sum));
    return all;
  }
  static constexpr uint64_t kIntegerFlops = kTile * 16 * S::kDotElements * 2;
};

}  // namespace sluice::cpu
