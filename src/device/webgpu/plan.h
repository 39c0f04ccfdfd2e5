// The plan of a program on WebGPU: layouts, and the dispatches of both token classes. It needs no GPU.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/layout.h"
#include "device/webgpu/trained_layout.h"

namespace sluice::webgpu {

class WebGpuPlan final : public Plan {
 public:
  static Result<std::unique_ptr<WebGpuPlan>> make(const DeviceInfo& info, const PlanRequest& request,
                                                  const Adapter& adapter);
  WebGpuPlan(const WebGpuPlan&) = delete;
  WebGpuPlan& operator=(const WebGpuPlan&) = delete;

  std::vector<MemoryLine> memory() const override { return memory_with(layout_.matrix_buffers_bytes()); }
  // The lines of memory() for another size of the matrices.
  std::vector<MemoryLine> memory_with(uint64_t matrix_bytes) const;
  uint64_t page_bytes(uint32_t group) const override { return layout_.page_bytes(group); }
  uint64_t expert_bytes() const override { return layout_.slots().words * 4; }
  std::string numerics_id() const override;

  const PlanRequest& request() const { return request_; }
  const Program& program() const { return *request_.program; }
  const Layout& layout() const { return layout_; }
  const Dispatches& dispatches(TokenClass token_class) const { return dispatches_[token_class]; }
  // The dispatches with a further kernel behind each op, which looks for infinite or NaN results.
  Dispatches looking_dispatches(TokenClass token_class) const;
  const TrainedLayout& trained() const { return trained_; }
  Dispatches trained_dispatches(TrainedWork work) const;
  uint64_t memory_bytes() const { return memory_words_ * 4; }
  uint64_t bounce_bytes() const {
    return bounce_bytes_;
  }  // the largest page of a state, through which pages are copied

 private:
  WebGpuPlan(const PlanRequest& request, const Adapter& adapter);
  Status check_sizes() const;

  PlanRequest request_;
  Adapter adapter_;
  std::vector<FusedRun> runs_;  // empty in a traced plan, which keeps every value
  Layout layout_;
  TrainedLayout trained_;
  PerClass<Dispatches> dispatches_;
  uint64_t memory_words_ = 0;
  uint64_t bounce_bytes_ = 0;
};

}  // namespace sluice::webgpu
