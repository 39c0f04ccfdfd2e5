// The ops short_conv, delta_gates and delta_rule on several threads. Threads split channels, heads and columns, never
// the rows of a sequence.
#include <algorithm>
#include <cmath>

#include "device/cpu/executor.h"
#include "device/cpu/simd_level.h"

namespace sluice::cpu {

void Executor::find_slot_runs(const StateRef& state) {
  slot_runs_.clear();
  sequence_runs_.clear();
  const std::span<const int32_t> sequences = step_->row_sequences();
  for (uint64_t first = 0, end = 0; first < sequences.size(); first = end) {
    while (end < sequences.size() && sequences[end] == sequences[first]) ++end;
    sequence_runs_.push_back({.first = slot_runs_.size()});
    cut_into_runs(state, static_cast<uint32_t>(sequences[first]), first, end - first);
    sequence_runs_.back().count = slot_runs_.size() - sequence_runs_.back().first;
  }
}

// A run ends at each row whose state is kept.
void Executor::cut_into_runs(const StateRef& state, uint32_t sequence, uint64_t first, uint64_t count) {
  const std::span<const int32_t> entries = step_->pages(program_.states[state.state].group, sequence);
  const float* before = slot(state, entries[kSlotRead]);
  for (uint64_t row = 0, begin = 0; row < count; ++row) {
    const bool last = row + 1 == count, listed = kSlotEntries + row < entries.size();
    const int32_t kept = last ? entries[kSlotWritten] : listed ? entries[kSlotEntries + row] : -1;
    CHECK(!last || kept >= 0);
    if (kept < 0) continue;
    float* after = slot(state, kept);
    slot_runs_.push_back(
        {.first = first + begin, .count = row + 1 - begin, .slots = {.before = before, .after = after}});
    before = after;
    begin = row + 1;
  }
}

float* Executor::slot(const StateRef& state, int32_t page) {
  CHECK(page < static_cast<int64_t>(memory_.pages(program_.states[state.state].group)));
  return page < 0 ? nullptr : memory_.slot(state.state, static_cast<uint32_t>(page));
}

void Executor::run(const ShortConv& op) {
  constexpr uint64_t kPart = 64;  // channels
  const uint64_t channels = columns(op.x), parts = (channels + kPart - 1) / kPart;
  const uint32_t taps = memory_.weight(op.weight).shape.columns;
  find_slot_runs(op.state);
  for (const SlotRun& run : slot_runs_) {
    share_out(pool_, parts, kPart * run.count * taps, [&](const Share& share) {
      kernels_.short_conv({.x = reals(op.x, run.first),
                           .out = result(op.out, run.first),
                           .weight = memory_.factors(op.weight),
                           .slot = run.slots,
                           .rows = run.count,
                           .channels = channels,
                           .taps = taps,
                           .first = share.first * kPart,
                           .last = std::min(share.last * kPart, channels)});
    });
  }
}

void Executor::run(const DeltaGates& op) {
  const float* rate = memory_.factors(op.rate);
  const float* bias = memory_.factors(op.bias);
  each_row(op.a, [&](uint64_t row) {
    for (uint64_t head = 0; head < columns(op.a); ++head) {
      const float x = reals(op.a, row)[head] + bias[head];
      result(op.decay, row)[head] = rate[head] * (x > 20 ? x : std::log1p(std::exp(x)));
    }
    kernels_.activation[static_cast<int>(ActivationKind::sigmoid)](reals(op.b, row), result(op.beta, row),
                                                                   columns(op.b));
  });
}

void Executor::run(const DeltaRule& op) {
  const StateDecl& state = program_.states[op.state.state];
  const uint32_t parts = (state.value_width + kDeltaColumns - 1) / kDeltaColumns;  // of a head
  find_slot_runs(op.state);
  const uint64_t count = sequence_runs_.size() * state.heads * parts;
  const uint64_t mean_rows = step_->rows() / std::max<uint64_t>(1, sequence_runs_.size()) + 1;
  share_out(pool_, count, mean_rows * state.key_width * kDeltaColumns / 4, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i) {
      const SequenceRuns& runs = sequence_runs_[i / (uint64_t{state.heads} * parts)];
      const auto head = static_cast<uint32_t>(i / parts % state.heads), part = static_cast<uint32_t>(i % parts);
      const auto end = static_cast<uint32_t>(std::min<uint64_t>(parts, part + (share.last - i)));
      for (const SlotRun& run : std::span(slot_runs_).subspan(runs.first, runs.count))
        delta_rule(op, run, head, {part, end});
      i += end - part - 1;
    }
  });
}

void Executor::delta_rule(const DeltaRule& op, const SlotRun& run, uint32_t head, HeadParts parts) {
  const StateDecl& state = program_.states[op.state.state];
  const uint32_t key_head = op.key_head(head, state.heads, type(op.k).heads);
  const uint64_t key = uint64_t{key_head} * state.key_width, value = uint64_t{head} * state.value_width;
  const uint64_t table = uint64_t{head} * state.key_width * state.value_width;
  kernels_.delta_rule({.q = reals(op.q, run.first) + key,
                       .k = reals(op.k, run.first) + key,
                       .v = reals(op.v, run.first) + value,
                       .decay = reals(op.decay, run.first) + head,
                       .beta = reals(op.beta, run.first) + head,
                       .out = result(op.out, run.first) + value,
                       .key_stride = columns(op.k),
                       .value_stride = columns(op.v),
                       .gate_stride = columns(op.decay),
                       .slot = {.before = run.slots.before == nullptr ? nullptr : run.slots.before + table,
                                .after = run.slots.after + table},
                       .rows = run.count,
                       .key_width = state.key_width,
                       .value_width = state.value_width,
                       .scale = op.scale,
                       .first = parts.first * kDeltaColumns,
                       .last = std::min(parts.end * kDeltaColumns, state.value_width),
                       .ahead = run.count == 1 && run.slots.before != nullptr && reads_ahead()});
}

}  // namespace sluice::cpu
