// Weights as programs and devices see them: a canonical name, a shape, and where the elements lie.
//
// A family's weight table binds canonical names to tensors of a checkpoint; a device asks a WeightSource by canonical
// name and never learns which file or dialect they came from. Where checkpoints keep a weight's scales in tensors of
// their own (8- and 4-bit floats, MLX's integers), a TensorSource lists these as parts; what the numbers are then,
// decode_weight_row says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/stored_bytes.h"
#include "base/result.h"
#include "format/format.h"

namespace sluice {

// `experts` matrices of [rows, columns]; a vector is one row. y = W x maps `columns` inputs to `rows` outputs.
struct WeightShape {
  uint32_t experts = 1;
  uint32_t rows = 1;
  uint32_t columns = 0;
  bool operator==(const WeightShape&) const = default;
};

// What a program says of a weight.
struct WeightDecl {
  std::string name{};  // canonical: "layer.3.q_proj"
  WeightShape shape{};
};

// What a part does to an element.
enum class PartRole : uint8_t { factor, divisor, offset, minus };  // *, /, +, -

// Numbers that do not lie row behind row. A matrix of them is one run of `bytes`, in which number (row, column) is at
// row * row_step + column * column_step; `first_row` is added to the weight's rows. Where a word of 32 bits has several
// numbers, lowest bits first, these are of neighbouring rows or columns, and a step leads to the next word.
struct NumberGrid {
  enum class Word : uint8_t { one_number, of_rows, of_columns };
  Word word{};
  bool interleaved = false;  // eight numbers lie in a word in the order 0, 2, 4, 6, 1, 3, 5, 7
  uint32_t bits = 0;         // of a number in a word
  uint32_t added = 0;        // to each word, modulo 2^32, before numbers are taken from it
  uint64_t row_step = 0;
  uint64_t column_step = 0;
  uint64_t bytes = 0;
  uint32_t first_row = 0;    // of a slice
  uint32_t expert_rows = 0;  // of each expert, where all share one matrix
  bool operator==(const NumberGrid&) const = default;
};

// For each column of a weight, which of a row's numbers is the column's.
using ColumnGroups = std::shared_ptr<const std::vector<uint32_t>>;

// Numbers beside the elements, one for each block of block_rows x block_columns of them: those of the weight's row r
// are row (r + row_shift) / block_rows at bytes + expert * expert_stride + that * row_stride. With a grid, whose rows
// are the weight's, they lie in its matrix at bytes + expert * expert_stride.
struct WeightPart {
  PartRole role{};
  Format format{};
  StoredAt bytes{};
  uint32_t block_rows = 1;
  uint32_t block_columns = 1;
  uint32_t row_shift = 0;  // rows of the first block that lie before the weight's, of a slice
  uint64_t expert_stride = 0;
  uint64_t row_stride = 0;
  std::shared_ptr<const void> owner;
  std::vector<StoredAt> experts{};  // as those of TensorSource
  std::optional<NumberGrid> grid{};
  std::vector<ColumnGroups> groups{};  // by expert, or one for all; none or null: columns in blocks

  StoredAt row(uint64_t expert, uint64_t row) const {
    return (experts.empty() ? bytes + expert * expert_stride : experts[static_cast<size_t>(expert)]) + row * row_stride;
  }
};

// Where a weight lies: rows of `format` at bytes + expert * expert_stride + row * row_stride. `bytes` may be unaligned.
// A weight that is a slice of a stored tensor (gate of a fused gate_up) has strides larger than its own rows. Experts
// that are tensors of their own lie anywhere: at experts[expert] + row * row_stride, the first of them at `bytes`. With
// a grid an expert's elements are its matrix, which begins where row 0 would, and row_stride is a row's share of it.
struct TensorSource {
  WeightShape shape{};
  Format format{};
  StoredAt bytes{};
  uint64_t expert_stride = 0;
  uint64_t row_stride = 0;
  std::shared_ptr<const void> owner;  // keeps `bytes` alive: a mapping, or a small tensor transformed at load
  std::vector<WeightPart> parts{};    // applied to each element in this order; mostly none
  std::vector<StoredAt> experts{};    // empty: at their stride
  std::optional<NumberGrid> grid{};   // of the elements

  StoredAt row(uint64_t expert, uint64_t row) const {
    return (experts.empty() ? bytes + expert * expert_stride : experts[static_cast<size_t>(expert)]) + row * row_stride;
  }
};

// A row as f32: the format's numbers, each part's applied in turn and rounded to f32. `to`: shape.columns floats.
void decode_weight_row(const TensorSource& source, uint32_t expert, uint32_t row, float* to);

// Several rows of an expert, decoded faster than one by one where they lie in a grid. A grid that lies in a file is
// read into memory once. The source outlives this.
class ExpertRows {
 public:
  ExpertRows(const TensorSource& source, uint32_t expert);
  ~ExpertRows();  // not inline: kernels are compiled for instructions that others may not use
  ExpertRows(const ExpertRows&) = delete;
  ExpertRows& operator=(const ExpertRows&) = delete;
  void decode(uint32_t first, uint32_t count, float* to) const;  // rows behind one another

 private:
  void apply(size_t part, uint32_t first, uint32_t count, float* to) const;

  const TensorSource* source_;
  uint32_t expert_;
  std::vector<const std::byte*> grids_;         // of the elements and of each part; empty: none has one
  std::vector<std::vector<std::byte>> memory_;  // of those that lie in files
};

// Rows [first, first + count) of each expert.
TensorSource rows_of(const TensorSource& source, uint32_t first, uint32_t count);

// Of all its rows and parts.
uint64_t stored_bytes(const TensorSource& source);
// Of the elements or the part's numbers that lie together: an expert's.
uint64_t expert_bytes(const TensorSource& source);
uint64_t expert_bytes(const TensorSource& source, const WeightPart& part);

// What of an expert moves when experts come and go: the elements, then each part that is large enough to be read by
// itself. Smaller parts stay where they lie.
struct ExpertPiece {
  int part = -1;  // index into `parts`; -1: the elements
  uint64_t bytes = 0;
};
inline constexpr uint64_t kLeastPieceBytes = 4096;
std::vector<ExpertPiece> expert_pieces(const TensorSource& source);
// Where a piece of that expert begins, in the source as it is.
StoredAt piece_bytes(const TensorSource& source, const ExpertPiece& piece, uint32_t expert);
// Where the experts' pieces of that kind are taken from, by expert; empty: at their stride.
std::vector<StoredAt>& piece_places(TensorSource& source, const ExpertPiece& piece);

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The weight of that canonical name; not_found when the model has none.
  virtual Result<TensorSource> find(const std::string& name) const = 0;
};

}  // namespace sluice
