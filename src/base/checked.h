// CheckedSize holds sizes and offsets that are computed from numbers of a file. Overflow sticks: once a sum or product
// does not fit into 64 bits, every later value is "none". One check at the end is enough. It cannot be forgotten,
// because only a check returns the number.
//
//   const CheckedSize end = CheckedSize(offset) + CheckedSize(rows) * columns * 4;
//   if (!end.fits(file_bytes)) return error(...);
#pragma once

#include <cstdint>
#include <optional>

namespace sluice {

class CheckedSize {
 public:
  constexpr CheckedSize(uint64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor)

  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) {
    CheckedSize sum(a.value_ + b.value_);
    sum.overflown_ = a.overflown_ || b.overflown_ || sum.value_ < a.value_;
    return sum;
  }
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) {
    CheckedSize product(a.value_ * b.value_);
    product.overflown_ = a.overflown_ || b.overflown_ || (a.value_ != 0 && product.value_ / a.value_ != b.value_);
    return product;
  }
  constexpr CheckedSize& operator+=(CheckedSize other) { return *this = *this + other; }
  constexpr CheckedSize& operator*=(CheckedSize other) { return *this = *this * other; }

  // The next multiple of `alignment`, which is not 0.
  constexpr CheckedSize aligned(uint64_t alignment) const {
    const uint64_t over = value_ % alignment;
    return over == 0 ? *this : *this + (alignment - over);
  }

  constexpr bool overflown() const { return overflown_; }
  constexpr bool fits(uint64_t limit) const { return !overflown_ && value_ <= limit; }
  // None after an overflow.
  constexpr std::optional<uint64_t> value() const {
    return overflown_ ? std::nullopt : std::optional<uint64_t>(value_);
  }

 private:
  uint64_t value_;
  bool overflown_ = false;
};

}  // namespace sluice
