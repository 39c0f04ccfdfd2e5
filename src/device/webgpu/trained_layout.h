// Where the tables of trained factors lie (device/trained_memory.h). A factor is cut into pieces of whole rows that fit
// a binding. A piece has its tables one behind another, in the order of TrainedTable.
//
// A model has hundreds of small factors, so a dispatch takes many of them: a run of entries, whose workgroups find
// their entry in a table on the GPU. An entry is a piece and one of the places of its factor.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "device/device.h"
#include "device/webgpu/host.h"
#include "device/webgpu/layout.h"

namespace sluice::webgpu {

inline constexpr uint32_t kTrainedSumNumbers = 16384;   // whose squares one workgroup adds
inline constexpr uint32_t kTrainedGroupNumbers = 1024;  // that a workgroup of the other kernels takes

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

// The words that the table has of an entry:
//   FIRST_GROUP           the first of its workgroups, which are counted through all entries
//   FIRST_SUM, COUNT      of the piece: its first sum of squares, its numbers
//   TABLES, TABLE_WORDS   where its tables begin in their buffer, and the words of each
//   GRADIENT              where the gradient of the place begins in `memory`, for this piece
//   WEIGHT, ROW_WORDS     where the numbers begin in the weights that are bound, and the words of a row there
//   COLUMNS               numbers of a row
inline constexpr std::array kTrainedWordNames = {"FIRST_GROUP", "FIRST_SUM", "COUNT",     "TABLES", "TABLE_WORDS",
                                                 "GRADIENT",    "WEIGHT",    "ROW_WORDS", "COLUMNS"};

struct TrainedEntry {
  uint32_t piece = 0, place = 0;
  uint32_t first_group = 0;
  WeightId weight = kNone;
  uint32_t shared = kNone;  // the buffer that the weight shares with others, or none
};

// Entries [first, end), of one place and one buffer of tables: those of all weights, or those whose weights are bound
// together.
struct TrainedRun {
  uint32_t first = 0, end = 0;
};

struct TrainedLayout {
  std::vector<TrainedPiece> pieces{};
  std::vector<TrainedEntry> entries{};  // by place, then by piece
  std::vector<uint64_t> buffer_words{};
  uint32_t sums = 0, groups = 0;
  // The entry of each workgroup, by the word at which it begins; the entry of each sum; the entries.
  std::vector<uint32_t> table{};

  std::vector<TrainedRun> runs(bool of_weights) const;
  uint32_t end_group(uint32_t entry) const {
    return entry + 1 == entries.size() ? groups : entries[entry + 1].first_group;
  }
  uint64_t bytes() const;  // of all buffers
};

// Without trained factors it is empty. Each of them is a matrix of the layout, in f32.
TrainedLayout lay_out_trained(const PlanRequest& request, const Layout& layout, const Adapter& adapter);

}  // namespace sluice::webgpu
