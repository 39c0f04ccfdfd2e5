// SHA-256. It names the contents of a model, so that a saved state is never used with another model.
// Source: FIPS 180-4 (https://doi.org/10.6028/NIST.FIPS.180-4), sections 4.1.2, 5.1.1 and 6.2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  // The digest of everything added. Nothing may be added afterwards.
  std::array<uint8_t, 32> finish();
  std::string finish_hex();  // 64 lower-case digits

 private:
  static constexpr size_t kBlockBytes = 64;

  void compress(const std::byte* block);

  // First 32 bits of the fractional parts of the square roots of the first eight primes.
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlockBytes> pending_{};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace sluice
