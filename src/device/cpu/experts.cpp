// experts: the rows of a step are grouped by expert, so that an expert's weights are read once.
#include <algorithm>
#include <array>

#include "device/cpu/executor.h"

namespace sluice::cpu {

void Executor::group_by_expert(const Experts& op) {
  const auto k = static_cast<uint32_t>(columns(op.index));
  chosen_.clear();
  expert_rows_.clear();
  for (uint32_t row = 0; row < rows(op.x); ++row)
    for (uint32_t i = 0; i < k; ++i) {
      const auto expert = static_cast<uint32_t>(integers(op.index, row)[i]);
      CHECK(expert < memory_.weight(op.gate).shape.experts);
      chosen_.push_back({.expert = expert, .row = row, .weight = reals(op.weight, row)[i]});
    }
  std::sort(chosen_.begin(), chosen_.end(), [](const Chosen& a, const Chosen& b) {
    return a.expert != b.expert ? a.expert < b.expert : a.row < b.row;
  });
  for (uint64_t i = 0; i < chosen_.size(); ++i) {
    if (expert_rows_.empty() || expert_rows_.back().expert != chosen_[i].expert)
      expert_rows_.push_back({.expert = chosen_[i].expert, .first = i});
    ++expert_rows_.back().count;
  }
}

void Executor::gather_rows(const Experts& op) {
  const uint64_t hidden = columns(op.x);
  share_out(pool_, chosen_.size(), hidden, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i)
      std::copy_n(reals(op.x, chosen_[i].row), hidden, memory_.expert_rows() + i * hidden);
  });
}

// Into expert_gate: kind(gate x) * up x, for every chosen expert of every row.
void Executor::multiply_inward(const Experts& op) {
  const Activations x = products_.prepare(memory_.expert_rows(), chosen_.size(), std::array{op.gate, op.up});
  gated_list_.clear();
  for (const ExpertRows& one : expert_rows_) {
    const Product gate = products_.product(x, op.gate, memory_.expert_gate(), one.expert);
    const Product up = products_.product(x, op.up, memory_.expert_up(), one.expert);
    gated_list_.push_back(
        {.gate = Products::part(gate, one.first, one.count), .up = Products::part(up, one.first, one.count)});
    gated_list_.back().out = gated_list_.back().gate.args.out;
  }
  products_.multiply(gated_list_, op.kind);
}

// A thread has its panels of outputs for all experts, in ascending order, and needs to wait for nobody.
void Executor::add_experts(const Experts& op, const Activations& inner, const Share& panels) {
  const uint64_t hidden = columns(op.out);
  const uint64_t first = panels.first * kPanelOutputs, last = std::min<uint64_t>(panels.last * kPanelOutputs, hidden);
  for (uint64_t row = 0; row < rows(op.out); ++row) std::fill_n(result(op.out, row) + first, last - first, 0.0f);
  for (const ExpertRows& one : expert_rows_) {
    const Product all = products_.product(inner, op.down, memory_.expert_rows(), one.expert);
    Product down = Products::part(all, one.first, one.count);
    down.args.out = memory_.expert_rows();  // again for every expert
    products_.multiply(down, first, last, panels.thread);
    for (uint64_t i = 0; i < one.count; ++i) {
      const Chosen& chosen = chosen_[one.first + i];
      kernels_.accumulate(down.args.out + i * hidden + first, chosen.weight, result(op.out, chosen.row) + first,
                          last - first);
    }
  }
}

void Executor::run(const Experts& op) {
  group_by_expert(op);
  gather_rows(op);
  multiply_inward(op);
  const Activations inner = products_.prepare(memory_.expert_gate(), chosen_.size(), std::array{op.down});
  const uint64_t panels = (columns(op.out) + kPanelOutputs - 1) / kPanelOutputs;
  share_out(pool_, panels, chosen_.size() * inner.columns, [&](const Share& share) { add_experts(op, inner, share); });
}

}  // namespace sluice::cpu
