// The step buffer: the inputs of one step of a program. It is laid out once and refilled for each step. The engine
// writes it, devices read it.
//
// It is one block of 32-bit words, so a device can upload it at once. Program and maxima give the offsets of its
// sections; counts say how much of each is filled. Inputs by rows of pictures and sounds lie last, large numbers at the
// very end, so that used_words() of a step without them ends before. Rows of a sequence are contiguous with ascending
// positions; sequences come in ascending order of their slot in the batch.
//
// Page tables: for sequence s and group g, entry i is the page of positions [64 (first + i), 64 (first + i) + 64),
// where first = first_page(g, s). Pages wholly behind a window have no entry.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"

namespace sluice {

// A new class is an enumerator and its name. Everything that is kept by class (PerClass) follows from these lists.
enum class TokenClass : uint8_t { prompt, decode };
inline constexpr std::array<const char*, 2> kTokenClassNames = {"prompt", "decode"};
inline constexpr std::array kTokenClasses = {TokenClass::prompt, TokenClass::decode};
static_assert(kTokenClasses.size() == kTokenClassNames.size());
constexpr const char* token_class_name(TokenClass token_class) {
  return kTokenClassNames[static_cast<size_t>(token_class)];
}

// One item for each class.
template <class T>
class PerClass {
 public:
  T& operator[](TokenClass token_class) { return items_[static_cast<size_t>(token_class)]; }
  const T& operator[](TokenClass token_class) const { return items_[static_cast<size_t>(token_class)]; }

 private:
  std::array<T, kTokenClasses.size()> items_{};
};

struct StepMaxima {
  SymbolCounts counts = text_counts(1, 1);  // by the program's symbols; `wanted` is at most `rows`
  uint32_t sequences = 1;
  std::vector<uint32_t> pages_per_sequence{};  // by group: the most page table entries of a sequence
  uint32_t adjustments = 0;                    // of all sequences together
  uint32_t masks = 0;                          // likewise
};

class StepBuffer {
 public:
  StepBuffer(const Program& program, const StepMaxima& maxima);

  // Empties the step and sets its counts. A count is at most its maximum, and 0 for a symbol that the program lacks.
  void reset(TokenClass token_class, const SymbolCounts& counts, uint32_t sequences, uint32_t adjustments,
             uint32_t masks = 0);

  TokenClass token_class() const { return class_; }
  uint32_t rows() const { return counts_[Symbol::rows]; }
  uint32_t wanted() const { return counts_[Symbol::wanted]; }
  const SymbolCounts& counts() const { return counts_; }
  // The rows of a value with that extent.
  uint64_t rows_of(const Extent& extent) const { return counts_.rows_of(extent); }
  // The step's row of row `row` of a value whose extent is in rows or wanted.
  size_t step_row(const Extent& extent, size_t row) const;
  uint32_t sequences() const { return sequences_; }

  // Per row of the step.
  std::span<int32_t> positions() { return {section(positions_), rows()}; }
  std::span<const int32_t> positions() const { return {section(positions_), rows()}; }
  std::span<int32_t> row_sequences() { return {section(row_sequences_), rows()}; }
  std::span<const int32_t> row_sequences() const { return {section(row_sequences_), rows()}; }

  // Program input `index` (order of Program::inputs), count x columns elements. "wanted" is an input too.
  std::span<int32_t> input_i32(uint32_t index);
  std::span<const int32_t> input_i32(uint32_t index) const;
  std::span<float> input_f32(uint32_t index);
  std::span<const float> input_f32(uint32_t index) const;
  // By wanted row: the step's row. This is the input "wanted"; empty if the program has no such input.
  std::span<const int32_t> wanted_rows() const;

  // Rope table `rope`: for each row that it turns (rope_extent), `pairs` cosines, then at sines() as many sines.
  std::span<float> cosines(RopeId rope) { return rope_part(rope, 0); }
  std::span<float> sines(RopeId rope) { return rope_part(rope, 1); }
  std::span<const float> cosines(RopeId rope) const { return const_cast<StepBuffer*>(this)->rope_part(rope, 0); }
  std::span<const float> sines(RopeId rope) const { return const_cast<StepBuffer*>(this)->rope_part(rope, 1); }
  // Fills every rope table from positions() or the input that holds its coordinates, which are filled before: f32
  // angle = position * frequency, then cos and sin of it. Tables of the same coordinates as before are left as they
  // are.
  void fill_ropes();
  // The row of a rope table for row `row` of a value of that extent.
  size_t rope_row(const Extent& extent, size_t row) const {
    return has_positions(extent) ? step_row(extent, row) : row;
  }

  // Page table of a sequence: its length is the group's pages_per_sequence.
  std::span<int32_t> pages(uint32_t group, uint32_t sequence);
  std::span<const int32_t> pages(uint32_t group, uint32_t sequence) const;
  int32_t& first_page(uint32_t group, uint32_t sequence);
  int32_t first_page(uint32_t group, uint32_t sequence) const;

  // Sampling, one a wanted row; adjustments are shared out by SampleRow.
  std::span<SampleRow> sample_rows();
  std::span<const SampleRow> sample_rows() const;
  std::span<Adjustment> adjustments();
  std::span<const Adjustment> adjustments() const;
  // The masks, one after another, and the one of SampleRow::mask: empty for 0.
  std::span<uint32_t> masks();
  std::span<const uint32_t> masks() const { return const_cast<StepBuffer*>(this)->masks(); }
  std::span<uint32_t> mask(uint32_t number);
  std::span<const uint32_t> mask(uint32_t number) const { return const_cast<StepBuffer*>(this)->mask(number); }

  const Program& program() const { return *program_; }
  const StepMaxima& maxima() const { return maxima_; }
  std::span<const uint32_t> words() const { return words_; }  // the whole block
  uint64_t used_words() const;                                // of it, up to the last that the counts fill
  static uint64_t bytes(const Program& program, const StepMaxima& maxima);

 private:
  int32_t* section(uint64_t offset) { return reinterpret_cast<int32_t*>(words_.data() + offset); }
  const int32_t* section(uint64_t offset) const { return reinterpret_cast<const int32_t*>(words_.data() + offset); }
  const ValueType& input_type(size_t input) const;
  uint64_t input_words(size_t input, const SymbolCounts& counts) const;
  uint64_t rope_words(RopeId rope, const SymbolCounts& counts) const;
  template <class Take>
  void lay_out_media(const Take& take);
  std::span<float> rope_part(RopeId rope, uint32_t part);
  std::span<const int32_t> coordinates(const RopeDecl& rope) const;

  const Program* program_;
  StepMaxima maxima_;
  TokenClass class_ = TokenClass::prompt;
  SymbolCounts counts_;
  uint32_t sequences_ = 0;
  uint32_t adjustment_count_ = 0, mask_count_ = 0;
  uint32_t mask_words_ = 0;
  int wanted_input_ = -1;
  // Offsets in words.
  uint64_t positions_ = 0, row_sequences_ = 0, sample_rows_ = 0, adjustments_ = 0, masks_ = 0;
  std::vector<uint64_t> inputs_, ropes_, pages_, first_pages_;
  std::vector<uint32_t> words_;
  // By table: where the last one was filled, and for which coordinates.
  struct FilledRope {
    const float* at = nullptr;
    std::vector<int32_t> coordinates{};
  };
  std::vector<FilledRope> filled_;
};

}  // namespace sluice
