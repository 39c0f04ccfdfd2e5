// A decoded picture: 8-bit RGB, row by row from the top, three bytes a pixel. Towers resize it (resize.h) and cut it
// into patches themselves.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

struct Picture {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> pixels;  // [height][width][3]
};

}  // namespace sluice
