// Counter-based random numbers. Each draw is a pure function of its keys, so threads, batch slots and the order of work
// cannot change it. All devices use these, bit for bit.
//
// Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox4x32, 10 rounds).
#pragma once

#include <array>
#include <cstdint>

namespace sluice {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * c0;
    const uint64_t b = uint64_t{0xcd9e8d57} * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  return {c0, c1, c2, c3};
}

// Standard Gumbel noise from one 32-bit draw: -log(E) with E = -log(1 - v) exponential and v = (bits + 1/2) / 2^32.
// This form keeps full resolution for the large values, which decide. Computed in double and rounded once. Values lie
// in (-3.2, 22.9).
float gumbel_from_bits(uint32_t bits);

// The noise that `sample` adds to a token's logit. Its keys are the request's seed, the choice, and the position of the
// sampled row. Four neighbouring tokens share one draw of Philox: counter (token / 4, position, choice, 0), key (low,
// high half of the seed), word token % 4.
float gumbel(uint64_t seed, uint32_t choice, uint32_t position, uint32_t token);
// The draw of Philox that the tokens 4 group to 4 group + 3 share.
PhiloxCounter gumbel_draw(uint64_t seed, uint32_t choice, uint32_t position, uint32_t group);

}  // namespace sluice
