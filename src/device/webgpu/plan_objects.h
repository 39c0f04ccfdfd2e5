// The GPU objects of one plan: buffers, pipelines, bindings and uniforms, made once before the first step. Matrices are
// filled from the model's file.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/webgpu/host.h"
#include "device/webgpu/plan.h"

namespace sluice::webgpu {

// Matrices are packed and uploaded in pieces of kPieceBytes. kStagingBytes: host memory for a piece and for uploads
// under way.
inline constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
inline constexpr uint64_t kStagingBytes = uint64_t{80} << 20;

struct BoundDispatch {
  PipelineId pipeline = 0;
  BindingId binding = 0;
  uint32_t uniform_offset = 0;
  Extent extent{};
  Grid grid{};
  uint32_t op = 0;
  bool of_present = false;  // as in Dispatch
};
struct Variant {
  std::vector<BoundDispatch> list{};
  std::vector<StreamedExperts> streamed{};
};

// The content of matrices. filled: the model's weights. shared: nothing, for timing decode steps without weights; all
// matrices share one buffer, in which neighbours have different parts, so that caches do not help.
enum class Matrices : uint8_t { filled, shared };

class PlanObjects {
 public:
  // `host` may be shared by several; `plan` outlives this.
  PlanObjects(const WebGpuPlan& plan, std::shared_ptr<Host> host, const std::vector<TensorSource>& weights,
              Matrices matrices);
  // The bytes of shared matrices for that plan.
  static uint64_t shared_bytes(const WebGpuPlan& plan);
  PlanObjects(const PlanObjects&) = delete;
  PlanObjects& operator=(const PlanObjects&) = delete;
  ~PlanObjects();

  // Packs and uploads the next `bytes` of the matrices, roughly.
  void fill(uint64_t bytes);
  bool full() const { return next_.weight == matrices_.size(); }
  uint64_t filled_bytes() const { return filled_bytes_; }
  uint64_t all_bytes() const { return plan_.layout().matrix_bytes(); }

  // Runner::reload().
  void reload(WeightId weight, uint32_t first, uint32_t matrices);

  // Of a plan with trained factors: their commands, and uploads and places of their tables.
  const Variant& trained(TrainedWork work) const { return trained_variants_[static_cast<size_t>(work)]; }
  void upload_trained_step(std::span<const float> numbers) { host_->upload(trained_step_, 0, std::as_bytes(numbers)); }
  BufferId trained_sums() const { return trained_sums_; }
  BufferId trained_buffer(uint32_t buffer) const { return trained_[buffer]; }

  // ExpertMemory::pack() and fill() for an expert of that op.
  void pack_part(const Experts& op, uint32_t expert, uint32_t part, std::span<const std::byte* const> pieces,
                 std::span<std::byte> into) const;
  void fill_slot(uint32_t slot, const std::byte* packed);

  bool has_weights() const { return kind_ == Matrices::filled; }
  Host& host() { return *host_; }
  BufferId memory() const { return memory_; }
  BufferId counts() const { return counts_; }
  BufferId flags() const { return flags_; }
  BufferId bounce() const { return bounce_; }
  BufferId state(uint32_t state) const { return states_[state]; }
  const Variant& variant(TokenClass token_class) const { return variants_[token_class]; }
  // The dispatches of looking_dispatches(). The first call makes them and waits for their pipelines.
  Result<const Variant*> looking_variant(TokenClass token_class);

 private:
  BufferId buffer(uint64_t bytes, BufferUse use = BufferUse::storage);
  void share_matrices();
  void make_matrices();
  void make_trained();
  BoundRange in_shared(WeightId weight) const;
  void upload_factors(const std::vector<TensorSource>& weights);
  void skip_what_is_full();
  void fill_rows(WeightId weight, uint32_t tile, uint64_t first, uint64_t count);
  Variant make_variant(const Dispatches& dispatches);
  BoundRange range(const Slot& slot) const;

  // The next row to fill.
  struct Next {
    WeightId weight = 0;
    uint32_t tile = 0;
    uint64_t row = 0;  // of the tile
  };

  const WebGpuPlan& plan_;
  std::shared_ptr<Host> host_;
  std::vector<TensorSource> weights_;
  Matrices kind_;
  Next next_;
  uint64_t filled_bytes_ = 0;
  std::vector<BufferId> buffers_;  // all of them
  std::vector<BindingId> all_bindings_;
  BufferId memory_ = 0, counts_ = 0, flags_ = 0, bounce_ = 0, factors_ = 0;
  std::vector<BufferId> states_;
  std::vector<BoundRange> shared_;                 // by buffer that weights share
  std::vector<std::vector<BoundRange>> matrices_;  // by weight and tile
  std::vector<BufferId> slots_;
  std::vector<BufferId> trained_;
  BufferId trained_sums_ = 0, trained_step_ = 0, trained_table_ = 0;
  std::vector<Variant> trained_variants_;  // by TrainedWork; none without trained factors
  PerClass<Variant> variants_;
  PerClass<std::optional<Variant>> looking_;
};

}  // namespace sluice::webgpu
