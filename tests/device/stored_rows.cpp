#include "stored_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace sluice {
namespace {

bool is_weight_like(const std::vector<float>& block) {
  float largest = 0;
  for (const float x : block) {
    if (!(std::fabs(x) <= 1)) return false;
    largest = std::max(largest, std::fabs(x));
  }
  return largest > 0.1f;
}

}  // namespace

void store_row(Format format, std::span<const float> numbers, uint32_t seed, std::byte* to) {
  const FormatInfo& info = format_info(format);
  if (info.encode != nullptr) return encode_row(format, numbers.data(), to, numbers.size());
  std::vector<float> block(info.block_elements);
  uint32_t tried = 0;
  for (size_t i = 0; i < numbers.size(); i += info.block_elements, to += info.block_bytes) {
    do {
      ++tried;
      for (uint32_t byte = 0; byte < info.block_bytes; ++byte)
        to[byte] = static_cast<std::byte>(philox4x32({byte, tried, 0, 0}, {seed, 0})[0] >> 24);
      decode_row(format, to, block.data(), block.size());
    } while (!is_weight_like(block));
  }
}

}  // namespace sluice
