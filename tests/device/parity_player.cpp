#include "parity_player.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "base/random.h"
#include "stored_rows.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

// FNV-1a of a case's name, so that cases differ in their data.
uint32_t seed_of(const OpCase& one) {
  uint32_t hash = 2166136261u;
  for (const char letter : one.name) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return hash;
}

// Uniform in [0, 1): what a number depends on is all in the counter and the key.
double draw(uint32_t seed, uint32_t table, const CaseRow& row, uint32_t column) {
  const PhiloxCounter counter = {column, row.position, row.sequence, row.take};
  return philox4x32(counter, {seed, table})[0] / 4294967296.0;
}

float real(const Fill& fill, double uniform) {
  if (fill.levels > 1) uniform = std::floor(uniform * fill.levels) / (fill.levels - 1);
  return static_cast<float>(fill.low + (fill.high - fill.low) * uniform);
}

// Row 0 of a weight's data is its first row, and so on.
std::vector<float> weight_row(const OpCase& one, WeightId id, uint32_t row) {
  const uint32_t seed = seed_of(one);
  std::vector<float> numbers(one.program.weights[id].shape.columns);
  for (uint32_t column = 0; column < numbers.size(); ++column)
    numbers[column] = real(one.weights[id].fill, draw(seed, 1000 + id, {.position = row}, column));
  return numbers;
}

// `count` integers of the fill; distinct ones are the first of a shuffled range.
std::vector<int32_t> integers(const OpCase& one, uint32_t input, const CaseRow& row, uint64_t count) {
  const uint32_t seed = seed_of(one);
  const Fill& fill = one.inputs[input];
  const auto range = static_cast<uint32_t>(fill.high - fill.low) + 1;
  std::vector<int32_t> numbers(std::max<uint64_t>(count, range));
  std::iota(numbers.begin(), numbers.end(), static_cast<int32_t>(fill.low));
  for (uint32_t i = 0; i < count; ++i) {
    const double uniform = draw(seed, input, row, i);
    if (fill.distinct)
      std::swap(numbers[i], numbers[i + static_cast<uint32_t>(uniform * (range - i))]);
    else
      numbers[i] = static_cast<int32_t>(fill.low + std::floor(uniform * range));
  }
  numbers.resize(count);
  return numbers;
}

struct RowSpan {
  size_t first = 0, last = 0;  // inclusive
};

// The rows about row `row` that are of its sequence.
RowSpan rows_of_sequence(const std::vector<CaseRow>& rows, size_t row) {
  const auto of_same = [&](size_t other) { return rows[other].sequence == rows[row].sequence; };
  RowSpan span{row, row};
  while (span.first > 0 && of_same(span.first - 1)) --span.first;
  while (span.last + 1 < rows.size() && of_same(span.last + 1)) ++span.last;
  return span;
}

// Of row `row` of all `rows`, which are a picture's as far as they are of one sequence.
int32_t range_end_of_media(const OpCase& one, RangeEnd end, const std::vector<CaseRow>& rows, size_t row) {
  auto [first, last] = rows_of_sequence(rows, row);
  if (one.block != 0) {
    first += (row - first) / one.block * one.block;
    last = std::min(last, first + one.block - 1);
  }
  return static_cast<int32_t>(end == RangeEnd::first ? first : last);
}

int32_t range_end(const OpCase& one, RangeEnd end, uint32_t position) {
  if (end == RangeEnd::first) return static_cast<int32_t>(position / 50 * 50);
  for (const CaseSpan& span : one.spans)
    if (span.first <= position && position < span.end) return static_cast<int32_t>(span.end - 1);
  return static_cast<int32_t>(position);
}

// `count` rows of a value of extent fill.rows_of: the one row in eight is none. A row's own run has as many rows of
// each extent as the ratios say.
std::vector<int32_t> row_numbers(const OpCase& one, uint32_t input, const CaseStep& step, size_t row, uint64_t count) {
  const Extent to = one.inputs[input].rows_of;
  const Extent from = one.program.values[one.program.inputs[input].value].type.extent;
  const std::vector<CaseRow> rows = rows_of(step, from);
  size_t first = 0, targets = rows_of(step, to).size();
  if (from.symbol == to.symbol) {
    const RowSpan span = rows_of_sequence(rows, row);
    first = span.first / from.ratio * to.ratio;
    targets = (span.last + 1 - span.first) / from.ratio * to.ratio;
  }
  std::vector<int32_t> numbers;
  for (uint32_t i = 0; i < count; ++i) {
    const double uniform = draw(seed_of(one), input, rows[row], i);
    const bool none = targets == 0 || uniform < 0.125;
    numbers.push_back(none ? -1
                           : static_cast<int32_t>(first + static_cast<size_t>((uniform - 0.125) / 0.875 *
                                                                              static_cast<double>(targets))));
  }
  return numbers;
}

uint32_t pages_of(uint32_t positions) { return (positions + kPagePositions - 1) / kPagePositions; }

StepMaxima maxima_of(const OpCase& one) {
  StepMaxima maxima;
  uint32_t pages = 1;
  for (const CaseStep& step : one.steps) {
    const SymbolCounts counts = counts_of(one, step);
    for (const Symbol symbol : one.program.symbols)
      maxima.counts[symbol] = std::max(maxima.counts[symbol], counts[symbol]);
    maxima.sequences = std::max(maxima.sequences, static_cast<uint32_t>(step.runs.size()));
    maxima.adjustments = std::max(maxima.adjustments, static_cast<uint32_t>(step.adjustments.size()));
    maxima.masks = std::max(maxima.masks, static_cast<uint32_t>(step.masks.size()));
    for (const CaseRun& run : step.runs) pages = std::max(pages, pages_of(run.position + run.rows));
  }
  for (const PageGroup& group : one.program.groups)
    maxima.pages_per_sequence.push_back(group.kind == StateKind::slots ? kSlotEntries : pages);
  return maxima;
}

}  // namespace

std::vector<PlacedShape> placed_shapes(const OpCase& one) {
  std::vector<PlacedShape> shapes;
  for (size_t id = 0; id < one.weights.size(); ++id)
    shapes.push_back({.shape = one.program.weights[id].shape, .format = one.weights[id].format});
  return shapes;
}

std::vector<CaseRow> rows_of(const CaseStep& step) { return rows_of(step, Symbol::rows); }

std::vector<CaseRow> rows_of(const CaseStep& step, Symbol symbol) {
  std::vector<CaseRow> rows;
  if (symbol == Symbol::wanted) {
    const std::vector<CaseRow> all = rows_of(step);
    for (const int32_t row : step.wanted) rows.push_back(all[static_cast<size_t>(row)]);
    return rows;
  }
  for (const CaseRun& run : symbol == Symbol::rows ? step.runs : step.media)
    for (uint32_t i = 0; i < run.rows; ++i)
      rows.push_back({.sequence = run.sequence, .position = run.position + i, .take = run.take});
  return rows;
}

std::vector<CaseRow> rows_of(const CaseStep& step, const Extent& extent) {
  std::vector<CaseRow> rows;
  for (const CaseRow& one : rows_of(step, extent.symbol))
    for (uint32_t i = 0; i < extent.ratio; ++i)
      rows.push_back({.sequence = one.sequence, .position = one.position * extent.ratio + i, .take = one.take});
  return rows;
}

SymbolCounts counts_of(const OpCase& one, const CaseStep& step) {
  SymbolCounts counts;
  for (const Symbol symbol : one.program.symbols) counts[symbol] = static_cast<uint32_t>(rows_of(step, symbol).size());
  return counts;
}

std::vector<float> input_row(const OpCase& one, uint32_t input, const CaseRow& row) {
  const uint64_t columns = one.program.values[one.program.inputs[input].value].type.columns();
  const uint32_t seed = seed_of(one);
  std::vector<float> numbers(columns);
  for (uint32_t column = 0; column < columns; ++column)
    numbers[column] = real(one.inputs[input], draw(seed, input, row, column));
  return numbers;
}

CaseWeights::CaseWeights(const OpCase& one) {
  for (WeightId id = 0; id < one.weights.size(); ++id) {
    const WeightShape& shape = one.program.weights[id].shape;
    const Format format = one.weights[id].format;
    const bool slice = id % 2 == 1;
    const uint64_t used = row_bytes(format, shape.columns);
    const uint64_t stride = slice ? 2 * used : used;
    const uint32_t rows = shape.experts * shape.rows;
    const auto bytes = std::make_shared<std::vector<std::byte>>(rows * stride + 1, std::byte{0xff});
    TensorSource source{.shape = shape,
                        .format = format,
                        .bytes = bytes->data() + (slice ? 1 : 0),
                        .expert_stride = shape.rows * stride,
                        .row_stride = stride,
                        .owner = bytes};
    for (uint32_t row = 0; row < rows; ++row)
      store_row(format, weight_row(one, id, row), seed_of(one) + 1000 * id + row,
                bytes->data() + (slice ? 1 : 0) + row * stride);
    sources_[one.program.weights[id].name] = source;
  }
}

Result<TensorSource> CaseWeights::find(const std::string& name) const {
  const auto found = sources_.find(name);
  if (found == sources_.end()) return error(ErrorKind::not_found, "weight ", name, ": found none: want one");
  return found->second;
}

CasePlayer::CasePlayer(const OpCase& one, const CaseWeights& weights, Device& device, Arithmetic arithmetic,
                       const PlayerOptions& options)
    : case_(one), traced_(options.traced) {
  const StepMaxima maxima = maxima_of(one);
  std::map<uint32_t, uint32_t> ends;
  for (const CaseStep& step : one.steps)
    for (const CaseRun& run : step.runs) ends[run.sequence] = std::max(ends[run.sequence], run.position + run.rows);
  for (const auto& [sequence, end] : ends) {
    first_page_[sequence] = pages_;
    pages_ += one.program.groups.empty() ? 0 : pages_of(end);
    first_slot_[sequence] = slots_;
    slots_ += end + 1;
  }
  std::vector<uint32_t> pages;
  for (uint32_t group = 0; group < one.program.groups.size(); ++group) pages.push_back(2 * used(group));
  const uint32_t groups = static_cast<uint32_t>(one.program.groups.size());
  std::unique_ptr<Plan> plan = unwrap(device.plan({.program = &one.program,
                                                   .arithmetic = arithmetic,
                                                   .maxima = maxima,
                                                   .pages = std::move(pages),
                                                   .weights = placed_shapes(one),
                                                   .expert_slots = slots_for(one.program, weights, options.slots),
                                                   .traced = options.traced}));
  for (uint32_t group = 0; group < groups; ++group) page_bytes_.push_back(plan->page_bytes(group));
  runner_ = unwrap(device.place(std::move(plan), weights, budget_));
  if (options.slots != 0)
    filler_ = std::make_unique<SlotFiller>(one.program, weights, *runner_, options.slots, options.seed);
  step_ = std::make_unique<StepBuffer>(one.program, maxima);
}

void CasePlayer::poison() {
  const auto rows = [](const CaseStep& step) {
    return rows_of(step).size() + rows_of(step, Symbol::media_rows).size();
  };
  const CaseStep& largest = *std::max_element(case_.steps.begin(), case_.steps.end(),
                                              [&](const CaseStep& a, const CaseStep& b) { return rows(a) < rows(b); });
  play(largest, TokenClass::prompt, Poison::all);
  for (uint32_t group = 0; group < page_bytes_.size(); ++group)
    for (uint32_t page = 0; page < 2 * used(group); ++page) {
      const std::vector<std::byte> nans(page_bytes_[group], std::byte{0xff});
      wait(runner_->write_page(group, page, nans));
    }
}

StepOutputs CasePlayer::play(const CaseStep& step, TokenClass token_class, Poison poison) {
  fill(step, token_class, poison);
  return run({.guess_experts = filler_ != nullptr}, nullptr);
}

Completion CasePlayer::play_looking(const CaseStep& step, StepOutputs* outputs) {
  fill(step, TokenClass::decode, Poison::last_row);
  Completion completion;
  *outputs = run({.find_non_finite = true}, &completion);
  return completion;
}

StepOutputs CasePlayer::run(const StartOptions& options, Completion* completion) {
  StepOutputs outputs;
  std::vector<ReadRequest> requests;
  for (const NamedValue& output : reads()) {
    const ValueType& type = case_.program.values[output.value].type;
    outputs.emplace_back(step_->rows_of(type.extent) * type.columns(), 0xffffffff);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    requests.push_back({.value = reads()[i].value, .into = std::as_writable_bytes(std::span<uint32_t>(outputs[i]))});
  const Completion done = wait(runner_->start(*step_, requests, options));
  if (completion != nullptr) *completion = done;
  return outputs;
}

Completion CasePlayer::wait(Ticket ticket) {
  std::optional<Completion> completion;
  while (!completion || completion->stopped) {
    if (completion) {
      filler_->serve(*completion);
      runner_->resume(ticket);
    }
    completion = runner_->poll();
    if (!completion) std::this_thread::yield();
  }
  EXPECT_EQ(completion->ticket, ticket);
  EXPECT_TRUE(completion->status.ok()) << completion->status.error().text;
  return *completion;
}

// Pages in use are scattered: neighbours in a sequence are not neighbours in memory.
int32_t CasePlayer::page(uint32_t sequence, uint32_t number) const {
  const uint32_t dense = first_page_.at(sequence) + number;
  const uint32_t stride = pages_ % 7 == 0 ? 5 : 7;
  const uint32_t scattered = pages_ % stride == 0 ? pages_ - 1 - dense : (dense * stride + 3) % pages_;
  return static_cast<int32_t>(scattered + (moved_ ? pages_ : 0));
}

void CasePlayer::move_pages() {
  for (uint32_t group = 0; group < page_bytes_.size(); ++group)
    for (uint32_t page = 0; page < used(group); ++page) {
      wait(runner_->copy_page(group, page, page + used(group)));
      wait(runner_->write_page(group, page, std::vector<std::byte>(page_bytes_[group], std::byte{0xff})));
    }
  moved_ = true;
}

void CasePlayer::move_pages_to(CasePlayer& to) {
  for (uint32_t group = 0; group < page_bytes_.size(); ++group)
    for (uint32_t page = 0; page < used(group); ++page) {
      std::vector<std::byte> bytes(page_bytes_[group]);
      wait(runner_->read_page(group, page, bytes));
      to.wait(to.runner_->write_page(group, page + used(group), bytes));
    }
  to.moved_ = true;
}

void CasePlayer::fill(const CaseStep& step, TokenClass token_class, Poison poison) {
  step_->reset(token_class, counts_of(case_, step), static_cast<uint32_t>(step.runs.size()),
               static_cast<uint32_t>(step.adjustments.size()), static_cast<uint32_t>(step.masks.size()));
  fill_rows(step);
  fill_pages(step);
  std::copy(step.adjustments.begin(), step.adjustments.end(), step_->adjustments().begin());
  for (uint32_t i = 0; i < step.masks.size(); ++i) std::ranges::copy(step.masks[i], step_->mask(i + 1).begin());
  if (has_symbol(case_.program, Symbol::wanted))
    std::copy(step.sampling.begin(), step.sampling.end(), step_->sample_rows().begin());
  for (uint32_t input = 0; input < case_.inputs.size(); ++input) {
    const NamedValue& named = case_.program.inputs[input];
    if (named.name == "wanted")
      std::copy(step.wanted.begin(), step.wanted.end(), step_->input_i32(input).begin());
    else
      fill_input(input, step, poison);
  }
  step_->fill_ropes();
}

void CasePlayer::fill_rows(const CaseStep& step) {
  if (!has_symbol(case_.program, Symbol::rows)) return;
  size_t row = 0;
  for (size_t run = 0; run < step.runs.size(); ++run)
    for (uint32_t i = 0; i < step.runs[run].rows; ++i, ++row) {
      step_->positions()[row] = static_cast<int32_t>(step.runs[run].position + i);
      step_->row_sequences()[row] = static_cast<int32_t>(run);
    }
}

// Of the state before the run's first row and after its last.
void CasePlayer::fill_slots(const CaseRun& run, std::span<int32_t> table) const {
  const uint32_t first = first_slot_.at(run.sequence) + (moved_ ? slots_ : 0);
  table[kSlotRead] = run.position == 0 ? -1 : static_cast<int32_t>(first + run.position);
  table[kSlotWritten] = static_cast<int32_t>(first + run.position + run.rows);
}

// Windowed groups keep no pages that lie wholly before what the run's first row sees; unused entries are no page.
void CasePlayer::fill_pages(const CaseStep& step) {
  for (uint32_t group = 0; group < page_bytes_.size(); ++group)
    for (uint32_t run = 0; run < step.runs.size(); ++run) {
      if (is_slots(group)) {
        fill_slots(step.runs[run], step_->pages(group, run));
        continue;
      }
      const auto [sequence, position, rows, take] = step.runs[run];
      const uint32_t window = case_.program.groups[group].window;
      const uint32_t seen = window == 0 || window > position ? 0 : position - window + 1;
      const uint32_t first = seen / kPagePositions;
      const std::span<int32_t> table = step_->pages(group, run);
      std::fill(table.begin(), table.end(), -1);
      step_->first_page(group, run) = static_cast<int32_t>(first);
      for (uint32_t number = first; number < pages_of(position + rows); ++number)
        table[number - first] = page(sequence, number);
    }
}

void CasePlayer::fill_input(uint32_t input, const CaseStep& step, Poison poison) {
  const ValueType& type = case_.program.values[case_.program.inputs[input].value].type;
  const std::vector<CaseRow> rows = rows_of(step, type.extent);
  const uint64_t columns = type.columns();
  const RangeEnd end = case_.inputs[input].end;
  const bool is_text = has_positions(type.extent);
  for (size_t row = 0; row < rows.size(); ++row) {
    if (end != RangeEnd::none) {
      step_->input_i32(input)[row] =
          is_text ? range_end(case_, end, rows[row].position) : range_end_of_media(case_, end, rows, row);
      continue;
    }
    if (type.element == Element::i32) {
      const std::vector<int32_t> numbers = case_.inputs[input].rows_of.ratio != 0
                                               ? row_numbers(case_, input, step, row, columns)
                                               : integers(case_, input, rows[row], columns);
      std::copy(numbers.begin(), numbers.end(),
                step_->input_i32(input).begin() + static_cast<ptrdiff_t>(row * columns));
      continue;
    }
    const bool nan = poison == Poison::all || (poison == Poison::last_row && row + 1 == rows.size());
    const auto to = step_->input_f32(input).begin() + static_cast<ptrdiff_t>(row * columns);
    if (nan) {
      std::fill_n(to, columns, std::numeric_limits<float>::quiet_NaN());
    } else {
      const std::vector<float> numbers = input_row(case_, input, rows[row]);
      std::copy(numbers.begin(), numbers.end(), to);
    }
  }
}

}  // namespace sluice
