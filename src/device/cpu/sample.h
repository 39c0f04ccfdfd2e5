// One row of the op sample (graph/ops/sample.h), without sorting the vocabulary.
#pragma once

#include <span>

#include "device/cpu/kernels.h"
#include "graph/ops/sample.h"

namespace sluice::cpu {

struct SampleArgs {
  std::span<const float> logits;
  SampleRow row;
  std::span<const Adjustment> adjustments;
  std::span<const uint32_t> mask;  // empty: every token may come
  uint32_t position = 0;
  float* scratch = nullptr;  // two rows of logits
};

SampleResult sample_row(const Kernels& kernels, const SampleArgs& args);

}  // namespace sluice::cpu
