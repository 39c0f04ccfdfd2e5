// The layout of GPU memory, in 32-bit words.
//
// The buffer `memory` has everything that a step reads and writes except caches and weights:
//   step      the StepBuffer
//   embedded  results of embed that the host decodes and uploads; the rows stay in the file
//   arena     values, packed by their lifetimes (graph/arena.h)
//   scratch   of one dispatch at a time
//
// The buffer `factors` has the small weights of norms, scales and gates as f32. Matrices, states and expert slots have
// buffers of their own (below).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/webgpu/host.h"
#include "graph/arena.h"

namespace sluice::webgpu {

// A state's buffer has page after page, each with
//   keys    [kv head][ceil(key width / e)][64 positions], words of e elements that are neighbours in width
//   values  [kv head][64 positions][ceil(value width / e)], likewise
// e is 1 for caches of f32 and 2 for f16 and bf16. A slot state has its f32 table in the place of keys.
struct StateLayout {
  StateKind kind = StateKind::paged;
  uint32_t per_word = 1;                    // elements
  uint32_t key_words = 0, value_words = 0;  // of a head's row: ceil(width / per_word)
  uint64_t values = 0;                      // offset in a page
  uint64_t page_words = 0;
};

// A matrix has packed rows (weight_format.h) behind its format's code-book, if there is one. If it is larger than a
// binding, it is cut into tiles of whole rows. A tile is rows [first_row, first_row + rows) of all experts' rows
// together.
struct WeightTile {
  uint64_t first_row = 0;
  uint64_t rows = 0;
};
struct MatrixLayout {
  Format format{};  // on the device
  uint64_t row_words = 0;
  std::vector<WeightTile> tiles{};
};

// Where a matrix begins that shares a buffer with others: factors of products' adapters, so that a kernel of several
// products binds all of them at once. A buffer is at most as large as a binding.
struct SharedPlace {
  uint32_t buffer = kNone;  // none: the matrix has a buffer of its own
  uint64_t word = 0;
};

// The slots of streamed experts, in buffers of `in_buffer` slots each (the last may have fewer). A slot has gate, up
// and down of one expert, each with its code-book before its rows.
struct SlotsLayout {
  uint64_t words = 0;  // of the largest expert, even if there are no slots; 0: the program has no experts
  uint32_t count = 0;
  uint32_t in_buffer = 0;

  uint32_t buffers() const { return in_buffer == 0 ? 0 : (count + in_buffer - 1) / in_buffer; }
  // A buffer has slots [first, end).
  uint32_t first(uint32_t buffer) const { return buffer * in_buffer; }
  uint32_t end(uint32_t buffer) const { return std::min(count, first(buffer + 1)); }
  uint64_t bytes(uint32_t buffer) const { return (end(buffer) - first(buffer)) * words * 4; }
  uint64_t bytes() const { return count * words * 4; }  // of all buffers
};

// Offsets in `memory` of the sections of a step.
struct StepLayout {
  uint32_t positions = 0, row_sequences = 0, sample_rows = 0, adjustments = 0, masks = 0;
  std::vector<uint32_t> inputs{};                // by program input
  std::vector<uint32_t> cosines{}, sines{};      // by rope table: rows with a number for each pair
  std::vector<uint32_t> pages{}, first_pages{};  // by group
};

// How ops use the weights of a program, by weight. Only the host reads the rows of a table of `embed`.
struct WeightUses {
  std::vector<bool> factor, matrix;
};
WeightUses weight_uses(const Program& program);

// Whether the host decodes the embedding rows of a step, so that the table of a vocabulary need not be on the GPU. An
// op with several ids a row reads a position table, which is small, and reads many of its rows: the GPU decodes them.
bool is_decoded_by_host(const Program& program, const Embed& op);

// An embed that the host decodes. If a scatter alone reads its rows, and takes its other operands from the step, the
// host puts those rows in their place as well, so that the scatter needs no dispatch.
struct HostEmbed {
  const Embed* embed = nullptr;
  const Scatter* scatter = nullptr;  // or null
};

class Layout {
 public:
  // `request` has been checked and outlives the layout. `together`: runs of ops whose values must not share memory.
  Layout(const PlanRequest& request, const Adapter& adapter, std::span<const OpRange> together);

  uint32_t at(ValueId value) const { return values_[value]; }
  const StepLayout& step() const { return step_; }
  const std::vector<HostEmbed>& host_embeds() const { return host_embeds_; }
  bool is_by_host(const Scatter& op) const;
  bool has_host_scatter(const Op& op) const;  // of an embed
  // Whether the host alone reads that input of the program.
  bool is_for_host(uint32_t input) const { return for_host_[input]; }
  static constexpr uint32_t kStep = 0;  // the word at which the StepBuffer begins
  uint32_t scratch() const { return scratch_; }
  Format cache() const { return cache_; }
  const StateLayout& state(uint32_t state) const { return states_[state]; }
  uint64_t state_bytes(uint32_t state) const;
  uint64_t page_bytes(uint32_t group) const;
  const MatrixLayout& matrix(WeightId weight) const { return matrices_[weight]; }
  bool is_matrix(WeightId weight) const { return !matrices_[weight].tiles.empty(); }
  uint64_t tile_bytes(WeightId weight, uint32_t tile) const;
  uint64_t all_tile_bytes(WeightId weight) const;
  const SharedPlace& shared(WeightId weight) const { return shared_[weight]; }
  std::span<const uint64_t> shared_words() const { return shared_words_; }  // by buffer
  const SlotsLayout& slots() const { return slots_; }
  // Whether the weight's experts are streamed. It then has a format and row words, but no tiles; in_slot() is its first
  // word in a slot.
  bool is_streamed(WeightId weight) const { return slot_words_[weight] != kNone; }
  uint32_t in_slot(WeightId weight) const { return slot_words_[weight]; }
  bool is_factor(WeightId weight) const { return factors_[weight] != kNone; }
  uint32_t factor(WeightId weight) const { return factors_[weight]; }
  uint64_t factor_words() const { return factor_words_; }
  uint64_t matrix_bytes() const;          // of the matrices' content
  uint64_t matrix_buffers_bytes() const;  // of the buffers that have it
  uint64_t all_state_bytes() const;

 private:
  void find_host_embeds();
  void lay_out_step();
  void lay_out_values(std::span<const OpRange> together);
  void lay_out_states();
  void lay_out_weights(const Adapter& adapter);
  void lay_out_slots(const Adapter& adapter);
  void share_adapters(const Adapter& adapter);

  const PlanRequest* request_;
  const Program* program_;
  Format cache_{};
  std::vector<HostEmbed> host_embeds_;
  std::vector<bool> for_host_;  // by program input
  StepLayout step_;
  std::vector<uint32_t> values_;  // by value
  uint64_t end_ = 0;
  uint32_t scratch_ = 0;
  std::vector<StateLayout> states_;
  std::vector<MatrixLayout> matrices_;  // by weight; no tiles: not a matrix
  std::vector<SharedPlace> shared_;     // by weight
  std::vector<uint64_t> shared_words_;  // by buffer
  std::vector<uint32_t> slot_words_;    // by weight; kNone: it is not streamed
  SlotsLayout slots_;
  std::vector<uint32_t> factors_;  // by weight; kNone: not a factor
  uint64_t factor_words_ = 0;
};

}  // namespace sluice::webgpu
