#include "media/decode/resampler.h"

#include <soxr.h>

#include <array>
#include <utility>

namespace sluice {
namespace {

constexpr size_t kPiece = 4096;  // samples

}  // namespace

Result<Resampler> Resampler::create(const std::string& name, uint32_t from_rate, uint32_t to_rate) {
  if (from_rate == to_rate) return Resampler(name, nullptr);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  soxr_error_t failure = nullptr;
  soxr* const converter = soxr_create(from_rate, to_rate, 1, &failure, nullptr, &quality, nullptr);
  if (failure != nullptr || converter == nullptr)
    return error(ErrorKind::out_of_memory, name, ": libsoxr: ", failure == nullptr ? "no converter" : failure);
  return Resampler(name, converter);
}

Resampler::Resampler(Resampler&& other) noexcept
    : name_(std::move(other.name_)), converter_(std::exchange(other.converter_, nullptr)) {}

Resampler::~Resampler() {
  if (converter_ != nullptr) soxr_delete(converter_);
}

Status Resampler::add(std::span<const float> in, std::vector<float>& out) {
  if (converter_ != nullptr) return process(in.data(), in.size(), out);
  out.insert(out.end(), in.begin(), in.end());
  return {};
}

Status Resampler::finish(std::vector<float>& out) {
  return converter_ == nullptr ? Status() : process(nullptr, 0, out);
}

// Null means to libsoxr that no more samples come.
Status Resampler::process(const float* in, size_t count, std::vector<float>& out) {
  std::array<float, kPiece> piece;
  for (;;) {
    size_t taken = 0, made = 0;
    const soxr_error_t failure = soxr_process(converter_, in, count, &taken, piece.data(), piece.size(), &made);
    if (failure != nullptr) return error(ErrorKind::out_of_memory, name_, ": libsoxr: ", failure);
    out.insert(out.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(made));
    if (in != nullptr) in += taken;
    count -= taken;
    if (count == 0 && made < piece.size()) return {};
  }
}

}  // namespace sluice
