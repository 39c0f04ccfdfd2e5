// Converts the rate of one channel piece by piece (libsoxr, high quality, 32-bit float).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

struct soxr;

namespace sluice {

class Resampler {
 public:
  // Passes samples through where both rates are equal. Errors begin with `name`.
  static Result<Resampler> create(const std::string& name, uint32_t from_rate, uint32_t to_rate);
  Resampler(Resampler&& other) noexcept;
  Resampler& operator=(Resampler&&) = delete;
  ~Resampler();

  // Appends what `in` gives to `out`.
  Status add(std::span<const float> in, std::vector<float>& out);
  // Appends the rest.
  Status finish(std::vector<float>& out);

 private:
  Resampler(std::string name, soxr* converter) : name_(std::move(name)), converter_(converter) {}
  Status process(const float* in, size_t count, std::vector<float>& out);

  std::string name_;
  soxr* converter_;  // null: rates are equal
};

}  // namespace sluice
