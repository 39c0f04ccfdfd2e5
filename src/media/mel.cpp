#include "media/mel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>

#include "base/check.h"

namespace sluice {
namespace {

constexpr size_t kFrame = 320;    // samples
constexpr size_t kHop = 160;      // samples from one frame to the next
constexpr size_t kPadding = 128;  // a sound is padded to a multiple of it
constexpr size_t kPoints = 512;   // of the transform
constexpr size_t kBins = kPoints / 2 + 1;
constexpr double kFloor = 1e-3;

using Complex = std::complex<double>;
using Points = std::array<Complex, kPoints>;

size_t reversed_bits(size_t i) {
  size_t out = 0;
  for (size_t bit = 1; bit < kPoints; bit *= 2) out = out * 2 + ((i & bit) != 0 ? 1 : 0);
  return out;
}

// Products are written out, because std::complex multiplies by a library call that checks for infinities.
Complex product(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Cooley and Tukey's transform with radix 2, in place, of points in the order of reversed bits.
void transform(Points& points, const Points& roots) {
  for (size_t half = 1; half < kPoints; half *= 2)
    for (size_t begin = 0; begin < kPoints; begin += 2 * half)
      for (size_t i = 0; i < half; ++i) {
        const Complex even = points[begin + i];
        const Complex odd = product(points[begin + i + half], roots[i * (kPoints / 2 / half)]);
        points[begin + i] = even + odd;
        points[begin + i + half] = even - odd;
      }
}

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// One triangle over the bins of the spectrum; the highest ones may lie between two bins.
struct Band {
  size_t first = 0;
  std::vector<double> weights;
};

Band band(double low, double middle, double high) {
  Band out;
  for (size_t bin = 0; bin < kBins; ++bin) {
    const double hertz = static_cast<double>(bin) * kMelRate / kPoints;
    const double weight = std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
    if (weight <= 0) continue;
    if (out.weights.empty()) out.first = bin;
    out.weights.push_back(weight);
  }
  return out;
}

struct Tables {
  std::array<double, kFrame> window;
  std::array<size_t, kPoints> order;
  Points roots;
  std::vector<Band> bands;
};

Tables make_tables() {
  Tables tables;
  constexpr double turn = 2 * std::numbers::pi;
  for (size_t i = 0; i < kFrame; ++i) tables.window[i] = 0.5 - 0.5 * std::cos(turn * static_cast<double>(i) / kFrame);
  for (size_t i = 0; i < kPoints; ++i) {
    tables.order[i] = reversed_bits(i);
    tables.roots[i] = std::polar(1.0, -turn * static_cast<double>(i) / kPoints);
  }
  const double step = mel_of(kMelRate / 2.0) / (kMelBands + 1);
  for (size_t i = 0; i < kMelBands; ++i) {
    const double low = hertz_of(static_cast<double>(i) * step);
    const double middle = hertz_of(static_cast<double>(i + 1) * step);
    const double high = hertz_of(static_cast<double>(i + 2) * step);
    tables.bands.push_back(band(low, middle, high));
  }
  return tables;
}

// The frame that begins at sample `begin`, which is negative for the first frame; before the sound are zeros.
void make_frame(const Tables& tables, const std::vector<float>& samples, int64_t begin, float* out) {
  Points points{};
  for (size_t i = 0; i < kFrame; ++i) {
    const int64_t at = begin + static_cast<int64_t>(i);
    if (at >= 0) points[tables.order[i]] = samples[static_cast<size_t>(at)] * tables.window[i];
  }
  transform(points, tables.roots);
  std::array<double, kBins> magnitudes;
  for (size_t bin = 0; bin < kBins; ++bin) magnitudes[bin] = std::hypot(points[bin].real(), points[bin].imag());
  for (const Band& band : tables.bands) {
    double sum = kFloor;
    for (size_t i = 0; i < band.weights.size(); ++i) sum += band.weights[i] * magnitudes[band.first + i];
    *out++ = static_cast<float>(std::log(sum));
  }
}

}  // namespace

MelFrames log_mel(const Sound& sound) {
  CHECK(sound.rate == kMelRate);
  // Half a frame of zeros goes before the sound. A frame counts only if one more sample follows it.
  constexpr size_t lead = kFrame / 2;
  const auto count = [](size_t samples) { return samples < lead + 1 ? 0 : (samples - lead - 1) / kHop + 1; };
  const size_t n = sound.samples.size();
  const size_t padded = (n + kPadding - 1) / kPadding * kPadding;
  MelFrames out{static_cast<uint32_t>(count(padded)), static_cast<uint32_t>(count(n)), {}};
  out.values.resize(size_t{out.frames} * kMelBands);
  const Tables tables = make_tables();
  for (size_t i = 0; i < out.valid; ++i) {
    const int64_t begin = static_cast<int64_t>(i * kHop) - static_cast<int64_t>(lead);
    make_frame(tables, sound.samples, begin, out.values.data() + i * kMelBands);
  }
  return out;
}

}  // namespace sluice
