#include "graph/weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace sluice {
namespace {

constexpr uint32_t kNumbersAtOnce = 64;  // whole blocks of every format that parts have
constexpr uint32_t kWordBits = 32;

void apply(PartRole role, float number, float* values, uint32_t count) {
  switch (role) {
    case PartRole::factor:
      for (uint32_t i = 0; i < count; ++i) values[i] *= number;
      break;
    case PartRole::divisor:
      for (uint32_t i = 0; i < count; ++i) values[i] /= number;
      break;
    case PartRole::offset:
      for (uint32_t i = 0; i < count; ++i) values[i] += number;
      break;
    case PartRole::minus:
      for (uint32_t i = 0; i < count; ++i) values[i] -= number;
      break;
  }
}

uint32_t numbers_of_row(const WeightPart& part, uint32_t columns) { return (columns - 1) / part.block_columns + 1; }

const std::vector<uint32_t>* groups_of(const WeightPart& part, uint32_t expert) {
  if (part.groups.empty()) return nullptr;
  return part.groups[part.groups.size() == 1 ? 0 : expert].get();
}

// Numbers [first, first + count) of a row that has `columns` elements.
void apply(const WeightPart& part, const float* numbers, uint32_t first, uint32_t count, float* values,
           uint32_t columns) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t begin = uint64_t{first + i} * part.block_columns;
    apply(part.role, numbers[i], values + begin,
          static_cast<uint32_t>(std::min<uint64_t>(part.block_columns, columns - begin)));
  }
}

// Each column's number stands in the row's numbers where `groups` says.
void apply(const WeightPart& part, const float* numbers, const std::vector<uint32_t>& groups, float* values) {
  for (size_t i = 0; i < groups.size(); ++i) apply(part.role, numbers[groups[i]], values + i, 1);
}

void apply_row(const WeightPart& part, uint32_t expert, uint32_t row, float* values, uint32_t columns) {
  const uint64_t number_row = (uint64_t{row} + part.row_shift) / part.block_rows;
  const uint32_t all = numbers_of_row(part, columns);
  std::vector<std::byte> room;
  const std::byte* from = part.row(expert, number_row).read(row_bytes(part.format, all), room);
  if (const std::vector<uint32_t>* groups = groups_of(part, expert)) {
    std::vector<float> numbers(all);
    decode_row(part.format, from, numbers.data(), all);
    return apply(part, numbers.data(), *groups, values);
  }
  float numbers[kNumbersAtOnce];
  for (uint32_t first = 0; first < all; first += kNumbersAtOnce) {
    const uint32_t count = std::min(kNumbersAtOnce, all - first);
    decode_row(part.format, from + row_bytes(part.format, first), numbers, count);
    apply(part, numbers, first, count, values, columns);
  }
}

class GridReader {
 public:
  GridReader(const NumberGrid& grid, Format format, const std::byte* from, uint32_t expert)
      : grid_(grid),
        format_(format),
        from_(from),
        before_(uint64_t{grid.first_row} + uint64_t{expert} * grid.expert_rows) {}

  // Row `first + i` goes to to + i * columns. Columns come before rows: rows lie closer together in most grids.
  void read(uint32_t first, uint32_t count, uint32_t columns, float* to) const {
    const uint32_t step = grid_.word == NumberGrid::Word::of_columns ? kWordBits / grid_.bits : 1;
    for (uint32_t column = 0; column < columns; column += step)
      for (uint32_t i = 0; i < count; ++i)
        read_numbers(before_ + first + i, column, std::min(step, columns - column),
                     to + uint64_t{i} * columns + column);
  }

 private:
  void read_numbers(uint64_t row, uint32_t column, uint32_t count, float* to) const {
    switch (grid_.word) {
      case NumberGrid::Word::one_number:
        return decode_row(format_, from_ + row * grid_.row_step + column * grid_.column_step, to, 1);
      case NumberGrid::Word::of_rows: {
        const uint32_t in_word = kWordBits / grid_.bits, number = static_cast<uint32_t>(row % in_word);
        *to = number_of(word(row / in_word, column), grid_.interleaved ? kInterleaved[number] : number);
        return;
      }
      case NumberGrid::Word::of_columns: {
        const uint32_t bits = word(row, column / (kWordBits / grid_.bits));
        for (uint32_t i = 0; i < count; ++i) to[i] = number_of(bits, i);
        return;
      }
    }
  }
  uint32_t word(uint64_t row, uint64_t column) const {
    uint32_t word;
    std::memcpy(&word, from_ + row * grid_.row_step + column * grid_.column_step, sizeof word);
    return word + grid_.added;
  }
  float number_of(uint32_t word, uint32_t place) const {
    return static_cast<float>(word >> place * grid_.bits & ((1u << grid_.bits) - 1));
  }

  static constexpr uint8_t kInterleaved[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // where number i of eight lies

  const NumberGrid& grid_;
  Format format_;
  const std::byte* from_;
  uint64_t before_;  // rows
};

bool has_grid(const TensorSource& source) {
  return source.grid || std::ranges::any_of(source.parts, [](const WeightPart& part) { return part.grid.has_value(); });
}

// One matrix of numbers an expert, or one for all.
uint64_t matrices(const WeightShape& shape, uint64_t expert_stride, const std::vector<StoredAt>& experts) {
  return expert_stride != 0 || !experts.empty() ? shape.experts : 1;
}

}  // namespace

ExpertRows::ExpertRows(const TensorSource& source, uint32_t expert) : source_(&source), expert_(expert) {
  if (!has_grid(source)) return;
  memory_.resize(1 + source.parts.size());
  const auto begin = [&](const auto& of, size_t i) {
    grids_.push_back(of.grid ? of.row(expert, 0).read(of.grid->bytes, memory_[i]) : nullptr);
  };
  begin(source, 0);
  for (size_t i = 0; i < source.parts.size(); ++i) begin(source.parts[i], 1 + i);
}

ExpertRows::~ExpertRows() = default;

void ExpertRows::decode(uint32_t first, uint32_t count, float* to) const {
  const uint32_t columns = source_->shape.columns;
  if (columns == 0) return;
  if (source_->grid) {
    GridReader(*source_->grid, source_->format, grids_[0], expert_).read(first, count, columns, to);
  } else {
    std::vector<std::byte> room;
    const uint64_t bytes = row_bytes(source_->format, columns);
    for (uint32_t i = 0; i < count; ++i)
      decode_row(source_->format, source_->row(expert_, first + i).fetch(bytes, room), to + uint64_t{i} * columns,
                 columns);
  }
  for (size_t part = 0; part < source_->parts.size(); ++part) apply(part, first, count, to);
}

void ExpertRows::apply(size_t part_index, uint32_t first, uint32_t count, float* to) const {
  const WeightPart& part = source_->parts[part_index];
  const uint32_t columns = source_->shape.columns;
  if (!part.grid) {
    for (uint32_t i = 0; i < count; ++i) apply_row(part, expert_, first + i, to + uint64_t{i} * columns, columns);
    return;
  }
  const uint32_t all = numbers_of_row(part, columns);
  std::vector<float> numbers(size_t{count} * all);
  GridReader(*part.grid, part.format, grids_[1 + part_index], expert_).read(first, count, all, numbers.data());
  const std::vector<uint32_t>* const groups = groups_of(part, expert_);
  for (uint32_t i = 0; i < count; ++i) {
    const float* const of_row = numbers.data() + uint64_t{i} * all;
    float* const values = to + uint64_t{i} * columns;
    if (groups != nullptr)
      sluice::apply(part, of_row, *groups, values);
    else
      sluice::apply(part, of_row, 0, all, values, columns);
  }
}

void decode_weight_row(const TensorSource& source, uint32_t expert, uint32_t row, float* to) {
  ExpertRows(source, expert).decode(row, 1, to);
}

uint64_t expert_bytes(const TensorSource& source) {
  return source.grid ? source.grid->bytes : source.shape.rows * source.row_stride;
}

uint64_t expert_bytes(const TensorSource& source, const WeightPart& part) {
  if (part.grid) return part.grid->bytes;
  return ((uint64_t{source.shape.rows} - 1 + part.row_shift) / part.block_rows + 1) * part.row_stride;
}

uint64_t stored_bytes(const TensorSource& source) {
  const WeightShape& shape = source.shape;
  uint64_t bytes = source.grid ? matrices(shape, source.expert_stride, source.experts) * source.grid->bytes
                               : uint64_t{shape.experts} * shape.rows * row_bytes(source.format, shape.columns);
  for (const WeightPart& part : source.parts) {
    if (part.grid) {
      bytes += matrices(shape, part.expert_stride, part.experts) * part.grid->bytes;
      continue;
    }
    const uint64_t rows = (uint64_t{shape.rows} + part.row_shift + part.block_rows - 1) / part.block_rows;
    const uint64_t columns = (uint64_t{shape.columns} + part.block_columns - 1) / part.block_columns;
    bytes += shape.experts * rows * row_bytes(part.format, static_cast<uint32_t>(columns));
  }
  return bytes;
}

TensorSource rows_of(const TensorSource& source, uint32_t first, uint32_t count) {
  CHECK(first <= source.shape.rows && count <= source.shape.rows - first);
  TensorSource rows = source;
  rows.shape.rows = count;
  if (rows.grid) {
    rows.grid->first_row += first;
  } else {
    rows.bytes += first * source.row_stride;
    for (StoredAt& expert : rows.experts) expert += first * source.row_stride;
  }
  for (WeightPart& part : rows.parts) {
    if (part.grid) {
      part.grid->first_row += first;
      continue;
    }
    const uint64_t shifted = uint64_t{first} + part.row_shift;
    const uint64_t skipped = shifted / part.block_rows * part.row_stride;
    part.bytes += skipped;
    for (StoredAt& expert : part.experts) expert += skipped;
    part.row_shift = static_cast<uint32_t>(shifted % part.block_rows);
  }
  return rows;
}

std::vector<ExpertPiece> expert_pieces(const TensorSource& source) {
  std::vector<ExpertPiece> pieces{{.part = -1, .bytes = expert_bytes(source)}};
  for (size_t i = 0; i < source.parts.size(); ++i) {
    const WeightPart& part = source.parts[i];
    const uint64_t bytes = expert_bytes(source, part);
    const bool own = part.expert_stride != 0 || !part.experts.empty();
    if (own && bytes >= kLeastPieceBytes) pieces.push_back({.part = static_cast<int>(i), .bytes = bytes});
  }
  return pieces;
}

StoredAt piece_bytes(const TensorSource& source, const ExpertPiece& piece, uint32_t expert) {
  return piece.part < 0 ? source.row(expert, 0) : source.parts[static_cast<size_t>(piece.part)].row(expert, 0);
}

std::vector<StoredAt>& piece_places(TensorSource& source, const ExpertPiece& piece) {
  return piece.part < 0 ? source.experts : source.parts[static_cast<size_t>(piece.part)].experts;
}

}  // namespace sluice
