#include "graph/step.h"

#include <algorithm>
#include <cmath>

#include "graph/op_check.h"

namespace sluice {

namespace {

// Of a program that samples.
uint32_t vocabulary_of(const Program& program) {
  for (const Op& op : program.ops)
    if (const Sample* sample = std::get_if<Sample>(&op))
      return static_cast<uint32_t>(program.values[sample->logits].type.columns());
  return 0;
}

}  // namespace

StepBuffer::StepBuffer(const Program& program, const StepMaxima& maxima) : program_(&program), maxima_(maxima) {
  CHECK(maxima.pages_per_sequence.size() == program.groups.size());
  uint64_t at = 0;
  const auto take = [&](uint64_t words) {
    const uint64_t offset = at;
    at += (words + 15) / 16 * 16;  // sections begin on cache lines
    return offset;
  };
  const uint64_t rows = maxima.counts[Symbol::rows];
  positions_ = take(rows);
  row_sequences_ = take(rows);
  inputs_.resize(program.inputs.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].name == "wanted") wanted_input_ = static_cast<int>(i);
    if (has_positions(input_type(i).extent)) inputs_[i] = take(input_words(i, maxima.counts));
  }
  ropes_.resize(program.ropes.size());
  for (RopeId rope = 0; rope < ropes_.size(); ++rope)
    if (has_positions(rope_extent(program, rope))) ropes_[rope] = take(rope_words(rope, maxima.counts));
  for (const uint32_t entries : maxima.pages_per_sequence) {
    pages_.push_back(take(uint64_t{entries} * maxima.sequences));
    first_pages_.push_back(take(maxima.sequences));
  }
  sample_rows_ = take(uint64_t{maxima.counts[Symbol::wanted]} * sizeof(SampleRow) / 4);
  adjustments_ = take(uint64_t{maxima.adjustments} * sizeof(Adjustment) / 4);
  mask_words_ = mask_words(vocabulary_of(program));
  masks_ = take(uint64_t{maxima.masks} * mask_words_);
  lay_out_media(take);
  words_.resize(static_cast<size_t>(at));
}

const ValueType& StepBuffer::input_type(size_t input) const {
  return program_->values[program_->inputs[input].value].type;
}

uint64_t StepBuffer::input_words(size_t input, const SymbolCounts& counts) const {
  return counts.rows_of(input_type(input).extent) * input_type(input).columns();
}

// Cosines and sines.
uint64_t StepBuffer::rope_words(RopeId rope, const SymbolCounts& counts) const {
  return 2 * counts.rows_of(rope_extent(*program_, rope)) * program_->ropes[rope].inverse_frequencies.size();
}

// What has rows without positions: integers, tables of angles, then numbers.
template <class Take>
void StepBuffer::lay_out_media(const Take& take) {
  const auto take_inputs = [&](Element element) {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!has_positions(input_type(i).extent) && input_type(i).element == element)
        inputs_[i] = take(input_words(i, maxima_.counts));
  };
  take_inputs(Element::i32);
  for (RopeId rope = 0; rope < ropes_.size(); ++rope)
    if (!has_positions(rope_extent(*program_, rope))) ropes_[rope] = take(rope_words(rope, maxima_.counts));
  take_inputs(Element::f32);
}

// Sines lie behind the most cosines that there may be.
uint64_t StepBuffer::used_words() const {
  uint64_t end = 0;
  const auto use = [&](uint64_t offset, uint64_t count) {
    if (count > 0) end = std::max(end, offset + count);
  };
  use(row_sequences_, rows());
  for (size_t i = 0; i < inputs_.size(); ++i) use(inputs_[i], input_words(i, counts_));
  for (RopeId rope = 0; rope < ropes_.size(); ++rope)
    if (const uint64_t own = rope_words(rope, counts_) / 2; own > 0)
      use(ropes_[rope] + rope_words(rope, maxima_.counts) / 2, own);
  for (size_t group = 0; group < pages_.size(); ++group) use(first_pages_[group], sequences_);
  use(sample_rows_, uint64_t{wanted()} * sizeof(SampleRow) / 4);
  use(adjustments_, uint64_t{adjustment_count_} * sizeof(Adjustment) / 4);
  use(masks_, uint64_t{mask_count_} * mask_words_);
  return end;
}

uint64_t StepBuffer::bytes(const Program& program, const StepMaxima& maxima) {
  return uint64_t{StepBuffer(program, maxima).words_.size()} * 4;
}

void StepBuffer::reset(TokenClass token_class, const SymbolCounts& counts, uint32_t sequences, uint32_t adjustments,
                       uint32_t masks) {
  for (size_t i = 0; i < kSymbols; ++i) {
    const auto symbol = static_cast<Symbol>(i);
    CHECK(counts[symbol] <= maxima_.counts[symbol]);
    CHECK(counts[symbol] == 0 || has_symbol(*program_, symbol));
  }
  CHECK(sequences <= maxima_.sequences && adjustments <= maxima_.adjustments && masks <= maxima_.masks);
  class_ = token_class;
  counts_ = counts;
  sequences_ = sequences;
  adjustment_count_ = adjustments;
  mask_count_ = masks;
  for (SampleRow& row : sample_rows()) row = SampleRow{};
}

std::span<int32_t> StepBuffer::input_i32(uint32_t index) {
  const ValueType& type = program_->values[program_->inputs[index].value].type;
  CHECK(type.element == Element::i32);
  return {section(inputs_[index]), static_cast<size_t>(rows_of(type.extent) * type.columns())};
}
std::span<const int32_t> StepBuffer::input_i32(uint32_t index) const {
  return const_cast<StepBuffer*>(this)->input_i32(index);
}
std::span<float> StepBuffer::input_f32(uint32_t index) {
  const ValueType& type = program_->values[program_->inputs[index].value].type;
  CHECK(type.element == Element::f32);
  return {reinterpret_cast<float*>(section(inputs_[index])),
          static_cast<size_t>(rows_of(type.extent) * type.columns())};
}
std::span<const float> StepBuffer::input_f32(uint32_t index) const {
  return const_cast<StepBuffer*>(this)->input_f32(index);
}

size_t StepBuffer::step_row(const Extent& extent, size_t row) const {
  row /= extent.ratio;
  return extent.symbol == Symbol::wanted ? static_cast<size_t>(wanted_rows()[row]) : row;
}

std::span<const int32_t> StepBuffer::wanted_rows() const {
  if (wanted_input_ < 0) return {};
  return input_i32(static_cast<uint32_t>(wanted_input_));
}

std::span<float> StepBuffer::rope_part(RopeId rope, uint32_t part) {
  const size_t pairs = program_->ropes[rope].inverse_frequencies.size();
  const Extent extent = rope_extent(*program_, rope);
  float* table = reinterpret_cast<float*>(section(ropes_[rope]));
  return {table + part * maxima_.counts.rows_of(extent) * pairs, static_cast<size_t>(rows_of(extent) * pairs)};
}

std::span<const int32_t> StepBuffer::coordinates(const RopeDecl& rope) const {
  if (rope.coordinates == kNone) return positions();
  return input_i32(static_cast<uint32_t>(input_of(*program_, rope.coordinates)));
}

namespace {

// Finds rows with equal coordinates. Many patches of a picture have the same row or column, and the sines and cosines
// of all of them would take milliseconds.
class RowsOfCoordinates {
 public:
  // `at`: rows of so many coordinates.
  RowsOfCoordinates(std::span<const int32_t> at, size_t axes) : axes_(axes) {
    int32_t most = 0;
    for (const int32_t one : at) {
      if (one < 0) return;
      most = std::max(most, one);
    }
    if (static_cast<size_t>(most) >= at.size()) return;  // the table would be larger than the rows
    first_.assign((static_cast<size_t>(most) + 1) * axes, at.size());
  }
  // The first row that was asked for with that coordinate.
  size_t first(size_t row, size_t axis, int32_t coordinate) {
    if (first_.empty()) return row;
    size_t& known = first_[static_cast<size_t>(coordinate) * axes_ + axis];
    return known = std::min(known, row);
  }

 private:
  size_t axes_;
  std::vector<size_t> first_;  // by coordinate and axis; empty: they are not looked for
};

}  // namespace

void StepBuffer::fill_ropes() {
  filled_.resize(program_->ropes.size());
  for (RopeId id = 0; id < program_->ropes.size(); ++id) {
    const RopeDecl& rope = program_->ropes[id];
    const size_t pairs = rope.inverse_frequencies.size();
    const size_t axes = rope.coordinates == kNone ? 1 : program_->values[rope.coordinates].type.width;
    const std::span<const int32_t> at = coordinates(rope);
    const std::span<float> cosine = cosines(id), sine = sines(id);
    FilledRope& filled = filled_[id];
    if (filled.at == cosine.data() && std::ranges::equal(filled.coordinates, at)) continue;
    filled = {.at = cosine.data(), .coordinates = {at.begin(), at.end()}};
    RowsOfCoordinates rows(at, axes);
    for (size_t row = 0; row * axes < at.size(); ++row)
      for (size_t i = 0; i < pairs; ++i) {
        const size_t axis = rope.axes.empty() ? 0 : rope.axes[i];
        const int32_t position = at[row * axes + axis];
        if (const size_t known = rows.first(row, axis, position); known < row) {
          cosine[row * pairs + i] = cosine[known * pairs + i];
          sine[row * pairs + i] = sine[known * pairs + i];
          continue;
        }
        const float angle = static_cast<float>(position) * rope.inverse_frequencies[i];
        cosine[row * pairs + i] = std::cos(angle) * rope.magnitude;
        sine[row * pairs + i] = std::sin(angle) * rope.magnitude;
      }
  }
}

std::span<int32_t> StepBuffer::pages(uint32_t group, uint32_t sequence) {
  CHECK(sequence < maxima_.sequences);
  const uint32_t entries = maxima_.pages_per_sequence[group];
  return {section(pages_[group]) + uint64_t{entries} * sequence, entries};
}
std::span<const int32_t> StepBuffer::pages(uint32_t group, uint32_t sequence) const {
  return const_cast<StepBuffer*>(this)->pages(group, sequence);
}
int32_t& StepBuffer::first_page(uint32_t group, uint32_t sequence) {
  CHECK(sequence < maxima_.sequences);
  return section(first_pages_[group])[sequence];
}
int32_t StepBuffer::first_page(uint32_t group, uint32_t sequence) const {
  return const_cast<StepBuffer*>(this)->first_page(group, sequence);
}

std::span<SampleRow> StepBuffer::sample_rows() {
  return {reinterpret_cast<SampleRow*>(section(sample_rows_)), wanted()};
}
std::span<const SampleRow> StepBuffer::sample_rows() const { return const_cast<StepBuffer*>(this)->sample_rows(); }
std::span<Adjustment> StepBuffer::adjustments() {
  return {reinterpret_cast<Adjustment*>(section(adjustments_)), adjustment_count_};
}
std::span<const Adjustment> StepBuffer::adjustments() const { return const_cast<StepBuffer*>(this)->adjustments(); }
std::span<uint32_t> StepBuffer::masks() {
  return {words_.data() + masks_, static_cast<size_t>(uint64_t{mask_count_} * mask_words_)};
}
std::span<uint32_t> StepBuffer::mask(uint32_t number) {
  if (number == 0) return {};
  CHECK(number <= mask_count_);
  return masks().subspan(size_t{number - 1} * mask_words_, mask_words_);
}

}  // namespace sluice
