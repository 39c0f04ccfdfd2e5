// Sixteen bytes, into which views unpack the small integers of weight formats. They are the compiler's vectors, so one
// text serves every instruction set. It is a template of the vector type S, because code for one instruction set level
// must never be used for another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::cpu {

template <class S>
struct Bytes {
  using V = uint8_t __attribute__((vector_size(16)));
  using Signed = int8_t __attribute__((vector_size(16)));
  using Words = uint16_t __attribute__((vector_size(16)));
  using Longs = uint64_t __attribute__((vector_size(16)));

  static V load(const std::byte* from) {
    V x;
    __builtin_memcpy(&x, from, sizeof(x));
    return x;
  }
  static V splat(uint8_t byte) { return V{} + byte; }

  // Bits [shift, shift + n) of every byte; mask has the lowest n bits. The shift moves words, and the mask removes bits
  // from the neighbour.
  static V bits(V x, uint32_t shift, uint8_t mask) {
    return reinterpret_cast<V>(reinterpret_cast<Words>(x) >> static_cast<uint16_t>(shift)) & splat(mask);
  }
  // Byte i is `value` where bit i of the sixteen is set, else 0.
  static V spread(const std::byte* sixteen_bits, uint8_t value) {
    constexpr uint64_t kEveryByte = 0x0101010101010101u;
    const Longs both = {static_cast<uint64_t>(sixteen_bits[0]) * kEveryByte,
                        static_cast<uint64_t>(sixteen_bits[1]) * kEveryByte};
    constexpr V kBit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const V picked = reinterpret_cast<V>(both) & kBit;
    return reinterpret_cast<V>(picked != V{}) & splat(value);
  }
  // The signed numbers.
  static typename S::F to_float(V x) {
    int8_t numbers[16];
    __builtin_memcpy(numbers, &x, sizeof(x));
    return S::load_i8(numbers);
  }
};

}  // namespace sluice::cpu
