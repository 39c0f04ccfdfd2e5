// The op experts: the rows of a step are grouped by expert, so that an expert's weights are read once.
//
// Streamed experts are computed in any order, when they are in slots. The results of each expert's rows are kept, and
// summed in ascending order once all experts are done. So streaming changes no bit.
#include <algorithm>
#include <array>

#include "device/cpu/executor.h"

namespace sluice::cpu {
namespace {

// A thread computes its share of the outputs in four pieces: a half, a quarter and two eighths. Each piece reads all
// rows again and begins anew in the weights of every expert, so there are few. The last ones are small, so that the
// threads end at about the same time.
constexpr std::array<uint64_t, 4> kEighthsBefore{0, 4, 6, 7};
constexpr uint64_t kPieces = kEighthsBefore.size();

// Where piece `piece` of `pieces` begins, of `count` panels.
uint64_t piece_begin(uint64_t piece, uint64_t count, uint64_t pieces) {
  const uint64_t eighths = piece / kPieces * 8 + kEighthsBefore[piece % kPieces];
  return count * eighths / (pieces / kPieces * 8);
}

}  // namespace

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

// All rows as gate and up take them. Where these take nothing but 8-bit blocks, a row is rounded once, not for each of
// its experts. Its blocks are then copied for each of them, if they need no more room than the row itself.
Activations Executor::gather_all(const Experts& op) {
  const std::array weights{op.gate, op.up};
  const uint64_t bytes = kernels_.quantised_bytes(columns(op.x));
  if (op.adapters.gate() || op.adapters.up() || bytes > columns(op.x) * sizeof(float) ||
      !std::ranges::all_of(weights, [&](WeightId weight) { return plan_.takes_8bit(weight); })) {
    gather_rows(op, {.first = 0, .count = chosen_.size()});
    return products_.prepare(memory_.expert_rows(), chosen_.size(), weights);
  }
  Activations x = products_.prepare(reals(op.x, 0), rows(op.x), weights);
  auto* const gathered = reinterpret_cast<std::byte*>(memory_.expert_rows());
  share_out(pool_, chosen_.size(), bytes / sizeof(float), [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i)
      std::copy_n(x.quantised + chosen_[i].row * bytes, bytes, gathered + i * bytes);
  });
  x.rows = chosen_.size();
  x.quantised = gathered;
  return x;
}

// Writes kind(gate x) * up x to expert_gate.
void Executor::multiply_inward(const Experts& op, const Activations& x, std::span<const ExpertRows> groups) {
  float *const gate = memory_.expert_gate(), *const up = memory_.expert_up();
  AdaptedRows rows{.x = memory_.expert_rows(),
                   .rows = chosen_.size(),
                   .out = gate,
                   .inner = memory_.adapter_inner(),
                   .scales = memory_.adapter_scales()};
  begin_adapters();
  find_adapter_runs(op, groups);
  list_adapter(op.adapters.gate(), rows);
  const size_t count = additions_.size();
  rows.out = up;
  if (op.adapters.gate()) rows.inner += rows.rows * memory_.weight(op.adapters.gate_a).shape.rows;
  list_adapter(op.adapters.up(), rows);
  std::span<const Addition> of_up = additions_, of_gate = of_up.first(count);
  of_up = of_up.subspan(count);
  gated_list_.clear();
  for (const ExpertRows& one : groups) {
    GatedProduct& product = gated_list_.emplace_back();
    product.gate = Products::part(products_.product(x, op.gate, gate, one.expert), one.first, one.count);
    product.up = Products::part(products_.product(x, op.up, up, one.expert), one.first, one.count);
    product.out = product.gate.args.out;
    const float* const behind = rows.scales + one.first + one.count;
    product.gate.additions = take_additions(of_gate, behind);
    product.up.additions = take_additions(of_up, behind);
  }
  products_.multiply(gated_list_, op.kind);
}

// The down products of these groups, each with what adapters add to it.
void Executor::list_downward(const Experts& op, const Activations& inner, std::span<const ExpertRows> groups) {
  begin_adapters();
  list_adapter(op.adapters.down(), {.x = memory_.expert_gate(),
                                    .rows = chosen_.size(),
                                    .out = memory_.expert_rows(),
                                    .inner = memory_.adapter_inner(),
                                    .scales = memory_.adapter_scales()});
  std::span<const Addition> rest = additions_;
  product_list_.clear();
  for (const ExpertRows& one : groups) {
    product_list_.push_back(
        Products::part(products_.product(inner, op.down, memory_.expert_rows(), one.expert), one.first, one.count));
    product_list_.back().additions = take_additions(rest, memory_.adapter_scales() + one.first + one.count);
  }
}

// A thread computes its panels of outputs for all experts in ascending order, so it waits for no other thread but for
// the first products of adapters. The results of all experts pass through one place, which is the thread's own and
// without gaps: rows as long as those of `out` would share a few lines of the first cache.
void Executor::add_experts(const Experts& op, const Share& panels) {
  const uint64_t hidden = columns(op.out);
  const uint64_t first = panels.first * kPanelOutputs, last = std::min<uint64_t>(panels.last * kPanelOutputs, hidden);
  if (first == last) return;
  const uint64_t width = last - first;
  float* const results = memory_.expert_rows() + first * chosen_.size();
  if (!additions_.empty()) products_.take_first(panels.thread);
  for (uint64_t row = 0; row < rows(op.out); ++row) std::fill_n(result(op.out, row) + first, width, 0.0f);
  for (size_t group = 0; group < expert_rows_.size(); ++group) {
    const ExpertRows& one = expert_rows_[group];
    products_.multiply(product_list_[group], {.out = results - first, .stride = width}, first, last, panels.thread);
    for (uint64_t i = 0; i < one.count; ++i) {
      const Chosen& chosen = chosen_[one.first + i];
      kernels_.accumulate(results + i * width, chosen.weight, result(op.out, chosen.row) + first, width);
    }
  }
}

void Executor::run(const Experts& op) {
  group_by_expert(op);
  run_grouped(op);
}

void Executor::run_grouped(const Experts& op) {
  multiply_inward(op, gather_all(op), expert_rows_);
  const Activations inner = products_.prepare(memory_.expert_gate(), chosen_.size(), std::array{op.down});
  list_downward(op, inner, expert_rows_);
  const uint64_t panels = (columns(op.out) + kPanelOutputs - 1) / kPanelOutputs;
  const uint64_t pieces = pool_.threads() * kPieces;
  share_out(pool_, pieces, chosen_.size() * inner.columns * panels / pieces, [&](const Share& share) {
    for (uint64_t piece = share.first; piece < share.last; ++piece)
      add_experts(op, {.thread = share.thread,
                       .first = piece_begin(piece, panels, pieces),
                       .last = piece_begin(piece + 1, panels, pieces)});
  });
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
  list_downward(op, inner, present_);
  products_.multiply(product_list_);
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
