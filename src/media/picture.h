// A decoded picture.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

struct Picture {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // red, green, blue; row by row
};

}  // namespace sluice
