// A decoded sound.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

struct Sound {
  uint32_t rate = 0;           // samples a second
  std::vector<float> samples;  // one channel, -1 to 1
};

}  // namespace sluice
