#include "media/resize.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace sluice {
namespace {

constexpr size_t kChannels = 3;
constexpr double kReach = 2;          // of the filter, in pixels of the coarser picture
constexpr uint32_t kPillowBits = 22;  // leaves room for 8 bits, a sign and the filter's overshoot

// Keys' cubic filter with a = -0.5.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// The source pixels that make one pixel of a line, with their weights. The weights add up to 1.
struct Window {
  size_t first = 0;
  std::vector<double> weights;
};

// Both libraries round to the nearest pixel, and begin at the first one.
size_t whole_pixels(double position) { return static_cast<size_t>(std::floor(std::max(position + 0.5, 0.0))); }

std::vector<Window> windows(size_t from, size_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);  // the filter grows where the picture shrinks
  const double support = kReach * stretch;
  std::vector<Window> all(to);
  for (size_t i = 0; i < to; ++i) {
    Window& window = all[i];
    const double center = (static_cast<double>(i) + 0.5) * scale;
    window.first = whole_pixels(center - support);
    const size_t end = std::min(whole_pixels(center + support), from);
    double sum = 0;
    for (size_t at = window.first; at < end; ++at) {
      window.weights.push_back(cubic((static_cast<double>(at) - center + 0.5) * (1 / stretch)));
      sum += window.weights.back();
    }
    for (double& weight : window.weights) weight /= sum;
  }
  return all;
}

// Weights as whole numbers of 2^-bits.
struct WholeWindow {
  size_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<WholeWindow> whole(const std::vector<Window>& windows, uint32_t bits) {
  std::vector<WholeWindow> all(windows.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    all[i].first = windows[i].first;
    for (const double weight : windows[i].weights)
      all[i].weights.push_back(static_cast<int32_t>(weight * (1u << bits) + (weight < 0 ? -0.5 : 0.5)));
  }
  return all;
}

// The most bits that keep the largest weight below 2^15.
uint32_t torch_bits(const std::vector<Window>& windows) {
  double largest = 0;
  for (const Window& window : windows)
    for (const double weight : window.weights) largest = std::max(largest, weight);
  uint32_t bits = 0;
  while (bits < kPillowBits && std::floor(0.5 + largest * (1u << (bits + 1))) < (1 << 15)) ++bits;
  return bits;
}

using CountBits = uint32_t (*)(const std::vector<Window>&);

uint8_t rounded(int32_t sum, uint32_t bits) { return static_cast<uint8_t>(std::clamp(sum >> bits, 0, 255)); }

Picture resize_columns(const Picture& picture, uint32_t width, CountBits count_bits) {
  const std::vector<Window> exact = windows(picture.width, width);
  const uint32_t bits = count_bits(exact);
  const std::vector<WholeWindow> columns = whole(exact, bits);
  Picture out{width, picture.height, std::vector<uint8_t>(size_t{width} * picture.height * kChannels)};
  uint8_t* to = out.pixels.data();
  for (size_t y = 0; y < picture.height; ++y) {
    const uint8_t* row = picture.pixels.data() + y * picture.width * kChannels;
    for (const WholeWindow& column : columns) {
      int32_t sums[kChannels] = {1 << (bits - 1), 1 << (bits - 1), 1 << (bits - 1)};
      const uint8_t* from = row + column.first * kChannels;
      for (const int32_t weight : column.weights)
        for (int32_t& sum : sums) sum += weight * *from++;
      for (const int32_t sum : sums) *to++ = rounded(sum, bits);
    }
  }
  return out;
}

Picture resize_rows(const Picture& picture, uint32_t height, CountBits count_bits) {
  const std::vector<Window> exact = windows(picture.height, height);
  const uint32_t bits = count_bits(exact);
  const size_t row_bytes = picture.width * kChannels;
  Picture out{picture.width, height, std::vector<uint8_t>(row_bytes * height)};
  std::vector<int32_t> sums(row_bytes);
  uint8_t* to = out.pixels.data();
  for (const WholeWindow& window : whole(exact, bits)) {
    std::fill(sums.begin(), sums.end(), 1 << (bits - 1));
    const uint8_t* from = picture.pixels.data() + window.first * row_bytes;
    for (const int32_t weight : window.weights)
      for (int32_t& sum : sums) sum += weight * *from++;
    for (const int32_t sum : sums) *to++ = rounded(sum, bits);
  }
  return out;
}

// A pass that changes nothing is left out, as both libraries do.
Picture resize(const Picture& picture, uint32_t width, uint32_t height, CountBits count_bits) {
  CHECK(width > 0 && height > 0 && picture.width > 0 && picture.height > 0);
  CHECK(picture.pixels.size() == size_t{picture.width} * picture.height * kChannels);
  const bool columns = width != picture.width;
  const bool rows = height != picture.height;
  if (columns && rows) return resize_rows(resize_columns(picture, width, count_bits), height, count_bits);
  if (columns) return resize_columns(picture, width, count_bits);
  if (rows) return resize_rows(picture, height, count_bits);
  return picture;
}

}  // namespace

Picture resize_bicubic(const Picture& picture, uint32_t width, uint32_t height) {
  return resize(picture, width, height, [](const std::vector<Window>&) { return kPillowBits; });
}

Picture resize_bicubic_torch(const Picture& picture, uint32_t width, uint32_t height) {
  return resize(picture, width, height, torch_bits);
}

}  // namespace sluice
