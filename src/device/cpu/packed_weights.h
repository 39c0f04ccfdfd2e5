// The packed weights of a runner. They are packed slice by slice; until then products use the stored weights.
#pragma once

#include <span>
#include <vector>

#include "base/large_buffer.h"
#include "base/threads.h"
#include "device/cpu/plan.h"

namespace sluice::cpu {

class PackedWeights {
 public:
  // For weights that stay in place in `stored`.
  static Result<PackedWeights> take(const CpuPlan& plan, std::span<const TensorSource> stored);

  // Packs the next `bytes` or a little more on all threads. Rows in files are read, mapped pages in place are released.
  // Must not run beside products.
  void pack(uint64_t bytes, ThreadPool& pool);
  bool done() const { return next_ == matrices_.size(); }

  // The packed matrix of a weight, or of one of its experts; null: not packed, or not yet.
  const std::byte* find(WeightId weight, uint32_t expert) const {
    return expert < packed_experts_[weight] ? memory_.data() + first_[weight] + expert * expert_bytes_[weight]
                                            : nullptr;
  }

 private:
  struct Matrix {
    WeightId weight = kNone;
    uint32_t expert = 0;
  };

  std::span<const TensorSource> stored_;
  std::vector<BlockPacking> packings_;          // by weight
  std::vector<uint64_t> first_, expert_bytes_;  // by weight
  std::vector<uint32_t> packed_experts_;        // by weight: how many of its matrices are packed
  std::vector<Matrix> matrices_;                // in the order of packing
  size_t next_ = 0;                             // matrix
  uint64_t next_panel_ = 0;                     // of the next matrix
  LargeBuffer memory_;
  std::vector<std::vector<std::byte>> rooms_;  // by thread: stored rows, until all are packed
};

}  // namespace sluice::cpu
