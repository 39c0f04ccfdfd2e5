// A plan on the GPU: buffers filled from the model's file, pipelines, bindings and uniforms, all made once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/webgpu/host.h"
#include "device/webgpu/plan.h"

namespace sluice::webgpu {

// Packed rows wait in memory of the host until so many bytes are there; uploads under way are bounded by the host.
inline constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
inline constexpr uint64_t kStagingBytes = uint64_t{80} << 20;

struct PlacedDispatch {
  PipelineId pipeline = 0;
  BindingId binding = 0;
  uint32_t uniform_offset = 0;
  Extent extent{};
  Grid grid{};
};
using Variant = std::vector<PlacedDispatch>;

class Placed {
 public:
  // `host` may be shared by several; `plan` and the sources outlive this.
  Placed(const WebGpuPlan& plan, std::shared_ptr<Host> host);
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
  ~Placed();

  Status fill(const std::vector<TensorSource>& weights);

  Host& host() { return *host_; }
  BufferId memory() const { return memory_; }
  BufferId counts() const { return counts_; }
  BufferId flags() const { return flags_; }
  BufferId bounce() const { return bounce_; }
  BufferId state(uint32_t state) const { return states_[state]; }
  const Variant& variant(TokenClass token_class) const { return variants_[static_cast<int>(token_class)]; }
  // Made at the first call, which waits for its pipelines.
  Result<const Variant*> looking_variant(TokenClass token_class);

 private:
  BufferId buffer(uint64_t bytes, BufferUse use = BufferUse::storage);
  void upload_factors(const std::vector<TensorSource>& weights);
  void upload_tile(WeightId id, const TensorSource& source, uint32_t tile);
  Variant make_variant(const Dispatches& dispatches);
  BoundRange range(const Slot& slot) const;

  const WebGpuPlan& plan_;
  std::shared_ptr<Host> host_;
  std::vector<BufferId> buffers_;  // all of them
  std::vector<BindingId> all_bindings_;
  BufferId memory_ = 0, counts_ = 0, flags_ = 0, bounce_ = 0, factors_ = 0;
  std::vector<BufferId> states_;
  std::vector<std::vector<BufferId>> matrices_;  // by weight and tile
  Variant variants_[kTokenClasses];
  std::optional<Variant> looking_[kTokenClasses];
};

}  // namespace sluice::webgpu
