#include "device/cpu/packed_weights.h"

#include <algorithm>

#include "base/files/file.h"
#include "device/cpu/packing.h"
#include "device/cpu/share_out.h"

namespace sluice::cpu {
namespace {

// The most bytes that are packed before the stored ones are released.
constexpr uint64_t kMostAtOnce = uint64_t{16} << 20;
// The most bytes that a thread reads from a file before it packs them: they stay in its cache.
constexpr uint64_t kMostRead = uint64_t{256} << 10;

uint64_t panels_of(const TensorSource& source) { return (source.shape.rows + kPanelOutputs - 1) / kPanelOutputs; }

}  // namespace

Result<PackedWeights> PackedWeights::take(const CpuPlan& plan, std::span<const TensorSource> stored) {
  PackedWeights packed;
  const size_t weights = stored.size();
  packed.stored_ = stored;
  packed.packings_.resize(weights);
  packed.first_.resize(weights);
  packed.expert_bytes_.resize(weights);
  packed.packed_experts_.resize(weights);
  TRY(packed.memory_, LargeBuffer::take(plan.packed_bytes(), "packed weights"));
  packed.memory_.prefer_huge_pages();
  uint64_t next = 0;
  for (const WeightId id : plan.packed_weights()) {
    const TensorSource& source = stored[id];
    packed.packings_[id] = plan.kernels().formats[static_cast<int>(source.format)].packing;
    packed.expert_bytes_[id] = packed_bytes(row_bytes(source.format, source.shape.columns), source.shape.rows);
    packed.first_[id] = next;
    next += source.shape.experts * packed.expert_bytes_[id];
    for (uint32_t expert = 0; expert < source.shape.experts; ++expert) packed.matrices_.push_back({id, expert});
  }
  return packed;
}

void PackedWeights::pack(uint64_t bytes, ThreadPool& pool) {
  for (uint64_t packed = 0; packed < bytes && !done();) {
    const Matrix& matrix = matrices_[next_];
    const TensorSource& source = stored_[matrix.weight];
    const uint64_t stored_row = row_bytes(source.format, source.shape.columns);
    const uint64_t panel_bytes = kPanelOutputs * stored_row;
    const uint64_t panels = panels_of(source), first = next_panel_;
    const uint64_t some = std::min(bytes - packed, kMostAtOnce);
    const uint64_t count = std::min(panels - first, std::max<uint64_t>(some / panel_bytes, 1));
    const PackArgs args{.packing = packings_[matrix.weight],
                        .from_stride = source.row_stride,
                        .stored_row = stored_row,
                        .rows = source.shape.rows,
                        .to = memory_.data() + first_[matrix.weight] + matrix.expert * expert_bytes_[matrix.weight]};
    // Of a slice of long rows more would be read than is wanted.
    const bool is_read = source.bytes.in_file() && source.row_stride < 2 * stored_row;
    const uint64_t panels_read = std::max<uint64_t>(kMostRead / (kPanelOutputs * source.row_stride), 1);
    rooms_.resize(pool.threads());
    share_out(pool, count, panel_bytes, [&](const Share& share) {
      for (uint64_t panel = share.first; panel < share.last;) {
        const uint64_t end = is_read ? std::min<uint64_t>(panel + panels_read, share.last) : share.last;
        PackArgs own = args;
        own.first_row = (first + panel) * kPanelOutputs;
        const StoredAt stored = source.row(matrix.expert, own.first_row);
        const uint64_t rows = std::min<uint64_t>((first + end) * kPanelOutputs, args.rows) - own.first_row;
        own.from = is_read ? stored.fetch((rows - 1) * source.row_stride + stored_row, rooms_[share.thread])
                           : static_cast<const std::byte*>(stored);
        pack_panels(own, first + panel, first + end);
        panel = end;
      }
    });
    const uint64_t row = first * kPanelOutputs,
                   end = std::min<uint64_t>((first + count) * kPanelOutputs, source.shape.rows);
    if (!is_read) give_back_mapped(StoredBytes(source.row(matrix.expert, row), (end - row) * source.row_stride));
    packed += count * panel_bytes;
    next_panel_ += count;
    if (next_panel_ < panels) continue;
    ++packed_experts_[matrix.weight];
    ++next_;
    next_panel_ = 0;
    if (done()) rooms_.clear();
  }
}

}  // namespace sluice::cpu
