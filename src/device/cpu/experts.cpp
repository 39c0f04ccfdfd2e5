// The op experts: the rows of a step are grouped by expert, so that an expert's weights are read once.
//
// Streamed experts are computed in any order, when they are in slots. The results of each expert's rows are kept, and
// summed in ascending order once all experts are done. So streaming changes no bit.
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

// `range`: rows of one expert or of neighbouring ones.
void Executor::gather_rows(const Experts& op, const ExpertRows& range) {
  const uint64_t hidden = columns(op.x);
  share_out(pool_, range.count, hidden, [&](const Share& share) {
    for (uint64_t i = range.first + share.first; i < range.first + share.last; ++i)
      std::copy_n(reals(op.x, chosen_[i].row), hidden, memory_.expert_rows() + i * hidden);
  });
}

// The same where rows have adapters, which are added before the activation.
void Executor::multiply_inward_adapted(const Experts& op, const Activations& x, std::span<const ExpertRows> groups) {
  float *const gate = memory_.expert_gate(), *const up = memory_.expert_up();
  product_list_.clear();
  for (const ExpertRows& one : groups) {
    product_list_.push_back(Products::part(products_.product(x, op.gate, gate, one.expert), one.first, one.count));
    product_list_.push_back(Products::part(products_.product(x, op.up, up, one.expert), one.first, one.count));
  }
  float* inner = memory_.adapter_inner();
  added_list_.clear();
  list_adapter(op.adapters.gate(), memory_.expert_rows(), inner, gate, product_list_, added_list_);
  if (op.adapters.gate()) inner += chosen_.size() * memory_.weight(op.adapters.gate_a).shape.rows;
  list_adapter(op.adapters.up(), memory_.expert_rows(), inner, up, product_list_, added_list_);
  products_.multiply(product_list_);
  products_.multiply(added_list_);
  const auto activate = kernels_.gated_activation[static_cast<int>(op.kind)];
  const uint64_t width = memory_.weight(op.gate).shape.rows;
  for (const ExpertRows& one : groups)
    share_out(pool_, one.count, width, [&](const Share& share) {
      for (uint64_t row = one.first + share.first; row < one.first + share.last; ++row)
        activate(gate + row * width, up + row * width, gate + row * width, width);
    });
}

// Writes kind(gate x) * up x to expert_gate.
void Executor::multiply_inward(const Experts& op, const Activations& x, std::span<const ExpertRows> groups) {
  if (find_adapter_runs(op, groups)) return multiply_inward_adapted(op, x, groups);
  gated_list_.clear();
  for (const ExpertRows& one : groups) {
    const Product gate = products_.product(x, op.gate, memory_.expert_gate(), one.expert);
    const Product up = products_.product(x, op.up, memory_.expert_up(), one.expert);
    gated_list_.push_back(
        {.gate = Products::part(gate, one.first, one.count), .up = Products::part(up, one.first, one.count)});
    gated_list_.back().out = gated_list_.back().gate.args.out;
  }
  products_.multiply(gated_list_, op.kind);
}

// A thread computes its panels of outputs for all experts in ascending order, so it waits for no other thread.
void Executor::add_experts(const Experts& op, const Activations& inner, const Share& panels) {
  const uint64_t hidden = columns(op.out);
  const uint64_t first = panels.first * kPanelOutputs, last = std::min<uint64_t>(panels.last * kPanelOutputs, hidden);
  for (uint64_t row = 0; row < rows(op.out); ++row) std::fill_n(result(op.out, row) + first, last - first, 0.0f);
  for (const ExpertRows& one : expert_rows_) {
    const Product all = products_.product(inner, op.down, memory_.expert_rows(), one.expert);
    Product down = Products::part(all, one.first, one.count);
    down.args.out = memory_.expert_rows();  // again for every expert
    products_.multiply(down, first, last, panels.thread);
    for (const AddedProduct& added : added_list_) {
      const uint64_t row = static_cast<uint64_t>(added.scales - memory_.adapter_scales());
      if (row < one.first || row >= one.first + one.count) continue;
      AddedProduct here = added;
      here.product.args.out = down.args.out + (row - one.first) * hidden;
      products_.add(here, first, last, panels.thread);
    }
    for (uint64_t i = 0; i < one.count; ++i) {
      const Chosen& chosen = chosen_[one.first + i];
      kernels_.accumulate(down.args.out + i * hidden + first, chosen.weight, result(op.out, chosen.row) + first,
                          last - first);
    }
  }
}

void Executor::run(const Experts& op) {
  group_by_expert(op);
  run_grouped(op);
}

void Executor::run_grouped(const Experts& op) {
  gather_rows(op, {.first = 0, .count = chosen_.size()});
  multiply_inward(op, products_.prepare(memory_.expert_rows(), chosen_.size(), std::array{op.gate, op.up}),
                  expert_rows_);
  const Activations inner = products_.prepare(memory_.expert_gate(), chosen_.size(), std::array{op.down});
  added_list_.clear();
  if (!adapter_runs_.empty()) {
    product_list_.clear();
    list_adapter(op.adapters.down(), memory_.expert_gate(), memory_.adapter_inner(), memory_.expert_rows(),
                 product_list_, added_list_);
    products_.multiply(product_list_);
  }
  const uint64_t panels = (columns(op.out) + kPanelOutputs - 1) / kPanelOutputs;
  share_out(pool_, panels, chosen_.size() * inner.columns, [&](const Share& share) { add_experts(op, inner, share); });
}

std::vector<uint32_t> Executor::choose_experts(uint32_t op) {
  group_by_expert(std::get<Experts>(program_.ops[op]));
  chosen_for_ = op;
  to_come_ = expert_rows_;
  std::vector<uint32_t> experts;
  experts.reserve(expert_rows_.size());
  for (const ExpertRows& one : expert_rows_) experts.push_back(one.expert);
  return experts;
}

std::vector<uint32_t> Executor::missing_experts() const {
  const auto& op = std::get<Experts>(program_.ops[chosen_for_]);
  std::vector<uint32_t> missing;
  for (const ExpertRows& one : to_come_)
    if (!memory_.has_expert(op.gate, one.expert)) missing.push_back(one.expert);
  return missing;
}

std::vector<uint32_t> Executor::choice_of(const Route& op) const {
  std::vector<uint32_t> chosen;
  for (uint64_t row = 0; row < rows(op.index); ++row)
    for (uint32_t i = 0; i < op.k; ++i) chosen.push_back(static_cast<uint32_t>(integers(op.index, row)[i]));
  std::ranges::sort(chosen);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

bool Executor::lacks_any(uint32_t experts, std::span<const uint32_t> chosen) const {
  const WeightId gate = std::get<Experts>(program_.ops[experts]).gate;
  return std::ranges::any_of(chosen, [&](uint32_t expert) { return !memory_.has_expert(gate, expert); });
}

bool Executor::run_present(uint32_t index) {
  const auto& op = std::get<Experts>(program_.ops[index]);
  const auto is_there = [&](const ExpertRows& one) { return memory_.has_expert(op.gate, one.expert); };
  present_.clear();
  std::ranges::copy_if(to_come_, std::back_inserter(present_), is_there);
  std::erase_if(to_come_, is_there);
  if (present_.size() == expert_rows_.size()) {
    run_grouped(op);
  } else {
    multiply_present(op);
    if (!to_come_.empty()) return false;
    sum_experts(op);
  }
  chosen_for_ = kNone;
  return true;
}

// At the end, each expert's results replace its gathered rows.
void Executor::multiply_present(const Experts& op) {
  Activations x, inner;
  for (const ExpertRows& one : present_) {
    gather_rows(op, one);
    x = products_.prepare_part(memory_.expert_rows(), one.first, one.count, std::array{op.gate, op.up});
  }
  multiply_inward(op, x, present_);
  for (const ExpertRows& one : present_)
    inner = products_.prepare_part(memory_.expert_gate(), one.first, one.count, std::array{op.down});
  product_list_.clear();
  for (const ExpertRows& one : present_)
    product_list_.push_back(
        Products::part(products_.product(inner, op.down, memory_.expert_rows(), one.expert), one.first, one.count));
  added_list_.clear();
  list_adapter(op.adapters.down(), memory_.expert_gate(), memory_.adapter_inner(), memory_.expert_rows(), product_list_,
               added_list_);
  products_.multiply(product_list_);
  products_.multiply(added_list_);
}

void Executor::sum_experts(const Experts& op) {
  const uint64_t hidden = columns(op.out);
  share_out(pool_, hidden, chosen_.size(), [&](const Share& share) {
    const uint64_t n = share.last - share.first;
    for (uint64_t row = 0; row < rows(op.out); ++row) std::fill_n(result(op.out, row) + share.first, n, 0.0f);
    for (uint64_t i = 0; i < chosen_.size(); ++i)
      kernels_.accumulate(memory_.expert_rows() + i * hidden + share.first, chosen_[i].weight,
                          result(op.out, chosen_[i].row) + share.first, n);
  });
}

}  // namespace sluice::cpu
