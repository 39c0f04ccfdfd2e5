// A decoded sound: one channel of samples from -1 to 1. Towers turn it into frames themselves, those of Gemma 4 with
// mel.h.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

struct Sound {
  uint32_t rate = 0;  // samples a second
  std::vector<float> samples;
};

}  // namespace sluice
