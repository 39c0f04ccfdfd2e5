#include "graph/weights.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {
namespace {

constexpr uint32_t kNumbersAtOnce = 64;  // whole blocks of every format that parts have

void apply(const WeightPart& part, float number, float* values, uint32_t count) {
  switch (part.role) {
    case PartRole::factor:
      for (uint32_t i = 0; i < count; ++i) values[i] *= number;
      break;
    case PartRole::divisor:
      for (uint32_t i = 0; i < count; ++i) values[i] /= number;
      break;
    case PartRole::offset:
      for (uint32_t i = 0; i < count; ++i) values[i] += number;
      break;
  }
}

void apply(const WeightPart& part, uint32_t expert, uint32_t row, float* values, uint32_t columns) {
  const uint64_t number_row = (uint64_t{row} + part.row_shift) / part.block_rows;
  const uint32_t all = (columns - 1) / part.block_columns + 1;
  std::vector<std::byte> room;
  const std::byte* from = part.row(expert, number_row).read(row_bytes(part.format, all), room);
  float numbers[kNumbersAtOnce];
  for (uint32_t first = 0; first < all; first += kNumbersAtOnce) {
    const uint32_t count = std::min(kNumbersAtOnce, all - first);
    decode_row(part.format, from + row_bytes(part.format, first), numbers, count);
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t begin = uint64_t{first + i} * part.block_columns;
      apply(part, numbers[i], values + begin,
            static_cast<uint32_t>(std::min<uint64_t>(part.block_columns, columns - begin)));
    }
  }
}

}  // namespace

void decode_weight_row(const TensorSource& source, uint32_t expert, uint32_t row, float* to) {
  const uint32_t columns = source.shape.columns;
  std::vector<std::byte> room;
  const std::byte* const from = source.row(expert, row).read(row_bytes(source.format, columns), room);
  decode_row(source.format, from, to, columns);
  if (columns == 0) return;
  for (const WeightPart& part : source.parts) apply(part, expert, row, to, columns);
}

uint64_t stored_bytes(const TensorSource& source) {
  const WeightShape& shape = source.shape;
  uint64_t bytes = uint64_t{shape.experts} * shape.rows * row_bytes(source.format, shape.columns);
  for (const WeightPart& part : source.parts) {
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
  rows.bytes += first * source.row_stride;
  for (StoredAt& expert : rows.experts) expert += first * source.row_stride;
  for (WeightPart& part : rows.parts) {
    const uint64_t shifted = uint64_t{first} + part.row_shift;
    const uint64_t skipped = shifted / part.block_rows * part.row_stride;
    part.bytes += skipped;
    for (StoredAt& expert : part.experts) expert += skipped;
    part.row_shift = static_cast<uint32_t>(shifted % part.block_rows);
  }
  return rows;
}

std::vector<ExpertPiece> expert_pieces(const TensorSource& source) {
  std::vector<ExpertPiece> pieces{{.part = -1, .bytes = source.shape.rows * source.row_stride}};
  for (size_t i = 0; i < source.parts.size(); ++i) {
    const WeightPart& part = source.parts[i];
    const uint64_t rows = (uint64_t{source.shape.rows} - 1 + part.row_shift) / part.block_rows + 1;
    const bool own = part.expert_stride != 0 || !part.experts.empty();
    if (own && rows * part.row_stride >= kLeastPieceBytes)
      pieces.push_back({.part = static_cast<int>(i), .bytes = rows * part.row_stride});
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
