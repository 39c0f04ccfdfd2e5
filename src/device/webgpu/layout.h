// Where everything lies on the GPU, in 32-bit words.
//
// The buffer `memory` is all that a step reads and writes but caches and weights:
//   step      the StepBuffer as it is
//   embedded  results of embed, which the host decodes and uploads: their rows stay in the file
//   arena     values, packed by their lifetimes (graph/arena.h)
//   scratch   a dispatch's own, shared by ops
//
// A state's buffer has its pages one behind another, each of
//   keys    [kv head][ceil(key width / e)][64 positions], a word of e elements that are neighbours in width
//   values  [kv head][64 positions][ceil(value width / e)], likewise
// where e is 1 for caches of f32 and 2 for f16 and bf16; a slot state has its table, f32, in the place of keys.
//
// A matrix has its rows packed (weight_format.h), behind the code-book of formats with one, cut into tiles of whole
// rows where it is larger than a binding. Weights that are factors - of norms, scales, gates - are f32 and lie one
// behind another in `factors`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/webgpu/host.h"
#include "graph/arena.h"

namespace sluice::webgpu {

struct StateLayout {
  StateKind kind = StateKind::paged;
  uint32_t per_word = 1;                    // elements
  uint32_t key_words = 0, value_words = 0;  // of a head's row: ceil(width / per_word)
  uint64_t values = 0;                      // offset in a page
  uint64_t page_words = 0;
};

// Rows [first_row, first_row + rows) of all experts' rows together.
struct WeightTile {
  uint64_t first_row = 0;
  uint64_t rows = 0;
};
struct MatrixLayout {
  Format format{};  // on the device
  uint64_t row_words = 0;
  std::vector<WeightTile> tiles{};
};

// Where experts that come and go lie: in slots of so many words - those of the largest expert, be there slots or not -,
// in buffers of `in_buffer` slots each, the last with what is left. In a slot are gate, up and down of one expert, each
// with its code-book before its rows.
struct SlotsLayout {
  uint64_t words = 0;  // of a slot; 0: the program has no experts
  uint32_t count = 0;
  uint32_t in_buffer = 0;

  uint32_t buffers() const { return in_buffer == 0 ? 0 : (count + in_buffer - 1) / in_buffer; }
  // Slots [first, end) are those of a buffer.
  uint32_t first(uint32_t buffer) const { return buffer * in_buffer; }
  uint32_t end(uint32_t buffer) const { return std::min(count, first(buffer + 1)); }
  uint64_t bytes(uint32_t buffer) const { return (end(buffer) - first(buffer)) * words * 4; }
  uint64_t bytes() const { return count * words * 4; }  // of all
};

// Offsets in `memory` of the sections of a step.
struct StepLayout {
  uint32_t positions = 0, row_sequences = 0, sample_rows = 0, adjustments = 0;
  std::vector<uint32_t> inputs{};                // by program input
  std::vector<uint32_t> cosines{}, sines{};      // by rope table: rows of as many as it has pairs
  std::vector<uint32_t> pages{}, first_pages{};  // by group
};

// What ops do with the weights of a program, by weight. An embedded table's rows are only read by the host.
struct WeightUses {
  std::vector<bool> factor, matrix;
};
WeightUses weight_uses(const Program& program);

class Layout {
 public:
  // `request` has been checked and outlives the layout. `together`: ops whose values lie apart from each other.
  Layout(const PlanRequest& request, const Adapter& adapter, std::span<const OpRange> together);

  uint32_t at(ValueId value) const { return values_[value]; }
  const StepLayout& step() const { return step_; }
  static constexpr uint32_t kStep = 0;  // where the StepBuffer lies
  uint32_t scratch() const { return scratch_; }
  Format cache() const { return cache_; }
  const StateLayout& state(uint32_t state) const { return states_[state]; }
  uint64_t state_bytes(uint32_t state) const;
  uint64_t page_bytes(uint32_t group) const;
  const MatrixLayout& matrix(WeightId weight) const { return matrices_[weight]; }
  bool is_matrix(WeightId weight) const { return !matrices_[weight].tiles.empty(); }
  uint64_t tile_bytes(WeightId weight, uint32_t tile) const;
  uint64_t all_tile_bytes(WeightId weight) const;
  const SlotsLayout& slots() const { return slots_; }
  // Whether its experts come and go: then it has a format and row words, but no tiles, and lies in a slot at that word.
  bool is_streamed(WeightId weight) const { return slot_words_[weight] != kNone; }
  uint32_t in_slot(WeightId weight) const { return slot_words_[weight]; }
  bool is_factor(WeightId weight) const { return factors_[weight] != kNone; }
  uint32_t factor(WeightId weight) const { return factors_[weight]; }
  uint64_t factor_words() const { return factor_words_; }
  uint64_t matrix_bytes() const;
  uint64_t all_state_bytes() const;

 private:
  void lay_out_step();
  void lay_out_values(std::span<const OpRange> together);
  void lay_out_states();
  void lay_out_weights(const Adapter& adapter);
  void lay_out_slots(const Adapter& adapter);

  const PlanRequest* request_;
  const Program* program_;
  Format cache_{};
  StepLayout step_;
  std::vector<uint32_t> values_;  // by value
  uint64_t end_ = 0;
  uint32_t scratch_ = 0;
  std::vector<StateLayout> states_;
  std::vector<MatrixLayout> matrices_;  // by weight; no tiles: it is none
  std::vector<uint32_t> slot_words_;    // by weight; kNone: it is not streamed
  SlotsLayout slots_;
  std::vector<uint32_t> factors_;  // by weight; kNone: it is none
  uint64_t factor_words_ = 0;
};

}  // namespace sluice::webgpu
