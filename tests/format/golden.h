// The data of tests/data/format: its generator, its lines, and what the tests measure against them.
#pragma once

#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "format/format.h"

namespace sluice {

// The generator that golden_blocks.txt describes.
class Generator {
 public:
  explicit Generator(uint32_t seed) : state_(seed) {}
  double uniform() { return (next() >> 8) / 16777216.0; }
  double value() {
    const double sum = uniform() + uniform() + uniform() + uniform();
    return (sum - 2.0) * 1.7320508075688772;
  }
  std::byte byte() { return static_cast<std::byte>(next() >> 24); }

 private:
  uint32_t next() { return state_ = state_ * 1664525 + 1013904223; }
  uint32_t state_;
};

inline std::vector<float> golden_input(uint32_t seed, bool outliers) {
  Generator generator(seed);
  std::vector<float> values(32 * 1024);
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = generator.value();
    values[i] = static_cast<float>(outliers && i % 97 == 0 ? value * 8 : value);
  }
  return values;
}

// Words of the line of a file in tests/data/format that begins with `first`.
inline std::vector<std::string> golden_line(const std::string& file_name, const std::string& first) {
  std::ifstream file(SLUICE_TEST_DATA "/format/" + file_name);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<std::string> found;
    for (std::string word; words >> word;) found.push_back(word);
    if (!found.empty() && found[0] == first) return found;
  }
  return {};
}

inline std::vector<std::byte> encode(Format format, const std::vector<float>& values) {
  std::vector<std::byte> bytes(row_bytes(format, values.size()));
  encode_row(format, values.data(), bytes.data(), values.size());
  return bytes;
}

inline std::vector<float> decode(Format format, const std::vector<std::byte>& bytes, size_t count) {
  std::vector<float> values(count, std::nanf(""));
  decode_row(format, bytes.data(), values.data(), count);
  return values;
}

inline uint32_t crc32(const void* data, size_t size) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i) {
    crc ^= static_cast<const uint8_t*>(data)[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

inline std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[static_cast<uint32_t>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<uint32_t>(byte) & 15];
  }
  return text;
}

inline std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return bytes;
}

// Root of the squared error over the squared norm.
inline double relative_error(const std::vector<float>& wanted, const std::vector<float>& found) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    error += std::pow(double{wanted[i]} - found[i], 2);
    norm += std::pow(double{wanted[i]}, 2);
  }
  return std::sqrt(error / norm);
}

}  // namespace sluice
