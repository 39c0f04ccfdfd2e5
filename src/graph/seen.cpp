#include "graph/seen.h"

#include <algorithm>

#include "graph/op_check.h"

namespace sluice {
namespace {

uint32_t input_at(const StepBuffer& step, ValueId id, size_t row) {
  const int32_t number = step.input_i32(static_cast<uint32_t>(input_of(step.program(), id)))[row];
  CHECK(number >= 0);
  return static_cast<uint32_t>(number);
}

// Of the sequence that row `row` of the step belongs to.
uint32_t first_row(const StepBuffer& step, size_t row) {
  const std::span<const int32_t> sequences = step.row_sequences();
  return static_cast<uint32_t>(std::lower_bound(sequences.begin(), sequences.end(), sequences[row]) -
                               sequences.begin());
}

}  // namespace

Seen seen(const Attention& op, const StepBuffer& step, size_t row) {
  const Extent& extent = step.program().values[op.q].type.extent;
  if (!has_positions(extent)) {
    const uint32_t first = input_at(step, op.first, row), last = input_at(step, op.last, row);
    CHECK(first <= last && last < step.rows_of(extent));
    return {.first = 0, .last = last - first, .own_begin = 0, .own_row = first};
  }
  const size_t step_row = step.step_row(extent, row);
  const auto position = static_cast<uint32_t>(step.positions()[step_row]);
  Seen range{.first = op.window == 0 || position < op.window ? 0 : position - op.window + 1, .last = position};
  if (op.first != kNone) range.first = input_at(step, op.first, row);
  if (op.last != kNone) range.last = input_at(step, op.last, row);
  if (op.has_own_rows()) {
    range.own_row = first_row(step, step_row);
    range.own_begin = static_cast<uint32_t>(step.positions()[range.own_row]);
    range.first = std::max(range.first, range.own_begin);
    CHECK(range.row_of(range.last) < step.rows());
  }
  CHECK(range.first <= range.last);
  return range;
}

}  // namespace sluice
