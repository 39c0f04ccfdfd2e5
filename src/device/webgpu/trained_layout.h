// Where the tables of trained factors lie (device/trained_memory.h). A factor is cut into pieces of whole rows that fit
// a binding. A piece has its tables one behind another, in the order of TrainedTable.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "device/webgpu/host.h"
#include "device/webgpu/layout.h"

namespace sluice::webgpu {

inline constexpr uint32_t kTrainedSumNumbers = 16384;  // whose squares one workgroup adds

struct TrainedPiece {
  uint32_t factor = 0;  // in PlanRequest::trained
  uint32_t tile = 0;    // of the factor's weights, which are cut alike
  uint64_t tile_row = 0;
  uint64_t first = 0, count = 0;  // of the factor's numbers
  uint32_t buffer = 0;
  uint64_t word = 0;  // of the buffer, at which the piece's tables begin
  uint64_t table_words = 0;
  uint32_t first_sum = 0;
  uint64_t table(TrainedTable which) const { return word + static_cast<uint64_t>(which) * table_words; }
};

struct TrainedLayout {
  std::vector<TrainedPiece> pieces{};
  std::vector<uint64_t> buffer_words{};
  uint32_t sums = 0;
  uint64_t bytes() const;  // of all buffers
};

// Without trained factors it is empty. Each of them is a matrix of the layout, in f32.
TrainedLayout lay_out_trained(const PlanRequest& request, const Layout& layout, const Adapter& adapter);

}  // namespace sluice::webgpu
