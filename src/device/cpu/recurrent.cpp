// short_conv, delta_gates, delta_rule: which slots, which thread. Channels, heads and columns are shared out, rows of a
// sequence never.
#include <algorithm>
#include <cmath>

#include "device/cpu/executor.h"

namespace sluice::cpu {

void Executor::find_sequences() {
  sequence_rows_.clear();
  for (uint64_t row = 0; row < step_->rows(); ++row) {
    const auto sequence = static_cast<uint32_t>(step_->row_sequences()[row]);
    if (sequence_rows_.empty() || sequence_rows_.back().sequence != sequence)
      sequence_rows_.push_back({.sequence = sequence, .first = row});
    ++sequence_rows_.back().count;
  }
}

SlotArgs Executor::slot(const StateRef& state, uint32_t sequence) {
  const uint32_t group = program_.states[state.state].group;
  const std::span<const int32_t> entries = step_->pages(group, sequence);
  const int32_t read = entries[kSlotRead];
  const auto written = static_cast<uint32_t>(entries[kSlotWritten]);
  CHECK(read < static_cast<int64_t>(memory_.pages(group)) && written < memory_.pages(group));
  return {.before = read < 0 ? nullptr : memory_.slot(state.state, static_cast<uint32_t>(read)),
          .after = memory_.slot(state.state, written)};
}

void Executor::run(const ShortConv& op) {
  constexpr uint64_t kPart = 64;  // channels
  const uint64_t channels = columns(op.x), parts = (channels + kPart - 1) / kPart;
  const uint32_t taps = memory_.weight(op.weight).shape.columns;
  find_sequences();
  for (const SequenceRows& rows : sequence_rows_) {
    const SlotArgs slots = slot(op.state, rows.sequence);
    share_out(pool_, parts, kPart * rows.count * taps, [&](const Share& share) {
      kernels_.short_conv({.x = reals(op.x, rows.first),
                           .out = result(op.out, rows.first),
                           .weight = memory_.factors(op.weight),
                           .slot = slots,
                           .rows = rows.count,
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
  find_sequences();
  const uint64_t count = sequence_rows_.size() * state.heads * parts;
  const uint64_t mean_rows = step_->rows() / std::max<uint64_t>(1, sequence_rows_.size()) + 1;
  share_out(pool_, count, mean_rows * state.key_width * kDeltaColumns / 4, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i) {
      const SequenceRows& rows = sequence_rows_[i / (uint64_t{state.heads} * parts)];
      const auto head = static_cast<uint32_t>(i / parts % state.heads), part = static_cast<uint32_t>(i % parts);
      const uint32_t key_head = op.key_head(head, state.heads, type(op.k).heads);
      const uint64_t key = uint64_t{key_head} * state.key_width, value = uint64_t{head} * state.value_width;
      const uint64_t table = uint64_t{head} * state.key_width * state.value_width;
      SlotArgs slots = slot(op.state, rows.sequence);
      if (slots.before != nullptr) slots.before += table;
      slots.after += table;
      kernels_.delta_rule({.q = reals(op.q, rows.first) + key,
                           .k = reals(op.k, rows.first) + key,
                           .v = reals(op.v, rows.first) + value,
                           .decay = reals(op.decay, rows.first) + head,
                           .beta = reals(op.beta, rows.first) + head,
                           .out = result(op.out, rows.first) + value,
                           .key_stride = columns(op.k),
                           .value_stride = columns(op.v),
                           .gate_stride = columns(op.decay),
                           .slot = slots,
                           .rows = rows.count,
                           .key_width = state.key_width,
                           .value_width = state.value_width,
                           .scale = op.scale,
                           .first = part * kDeltaColumns,
                           .last = std::min((part + 1) * kDeltaColumns, state.value_width)});
    }
  });
}

}  // namespace sluice::cpu
