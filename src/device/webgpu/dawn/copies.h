// Copies between the host's memory and mapped buffers, large ones on a few threads: one thread copies some 5 GB/s, less
// than a GPU's bus.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/threads.h"

namespace sluice::webgpu {

struct CopiedBytes {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  size_t bytes = 0;
};

class Copies {
 public:
  void copy(std::span<const CopiedBytes> all);
  void copy(const CopiedBytes& one) { copy(std::span(&one, 1)); }

 private:
  std::unique_ptr<ThreadPool> pool_;  // made by the first large copy
  std::vector<CopiedBytes> pieces_;
};

}  // namespace sluice::webgpu
