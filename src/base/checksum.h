// Checksums of 128 bits for files that Sluice writes. They detect damage, not forgery. XXH3 is about as fast as memory,
// while portable SHA-256 is several times slower than a disk.
// Source: https://github.com/Cyan4973/xxHash/blob/v0.8.1/doc/xxhash_spec.md; the code is the header of libxxhash-dev.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sluice {

inline constexpr size_t kChecksumBytes = 16;
using ChecksumValue = std::array<std::byte, kChecksumBytes>;  // most significant byte first, as xxhsum prints it
std::string hex_of(const ChecksumValue& value);

class Checksum {
 public:
  Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  ~Checksum();

  void add(std::span<const std::byte> bytes);
  ChecksumValue value() const;  // of everything added so far
  void restart();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
