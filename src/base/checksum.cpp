#include "base/checksum.h"

#define XXH_INLINE_ALL  // the header alone: no library to link, in a page neither
#include <xxhash.h>

#include <cstring>

namespace sluice {

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { restart(); }
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;

void Checksum::restart() { XXH3_128bits_reset(&state_->xxh3); }

void Checksum::add(std::span<const std::byte> bytes) { XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size()); }

ChecksumValue Checksum::value() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->xxh3));
  ChecksumValue value;
  static_assert(sizeof canonical == sizeof value);
  std::memcpy(value.data(), &canonical, sizeof value);
  return value;
}

std::string hex_of(const ChecksumValue& value) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string digits;
  for (const std::byte byte : value) {
    digits += kDigits[std::to_integer<int>(byte) >> 4];
    digits += kDigits[std::to_integer<int>(byte) & 15];
  }
  return digits;
}

}  // namespace sluice
