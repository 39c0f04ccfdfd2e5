// The adapters of products. Runs of neighbouring rows with the same slot are multiplied by both factors together.
//
// The kernels' sums do not depend on the number of rows, so the length of a run changes no bit.
#include "device/cpu/executor.h"

namespace sluice::cpu {

// Finds runs of rows with one slot and scales other than 0. A wanted row has the slot and scale of the step's row that
// it stands for. Writes one scale a row to `scales`.
void Executor::find_adapter_runs(const Linear& op, float* scales) {
  adapter_runs_.clear();
  for (uint64_t row = 0; row < rows(op.x); ++row) {
    const uint64_t of_step = step_row(op.x, row);
    const int32_t slot = *integers(op.adapter.slots, of_step);
    const float scale = *reals(op.adapter.scales, of_step);
    CHECK(slot >= 0 && static_cast<uint32_t>(slot) <= memory_.weight(op.adapter.a).shape.experts);
    scales[row] = scale;
    if (slot == 0 || scale == 0.0f) continue;
    const auto matrix = static_cast<uint32_t>(slot - 1);
    const bool goes_on = !adapter_runs_.empty() && adapter_runs_.back().matrix == matrix &&
                         adapter_runs_.back().first + adapter_runs_.back().count == row;
    if (!goes_on) adapter_runs_.push_back({.matrix = matrix, .first = row});
    ++adapter_runs_.back().count;
  }
}

void Executor::add_adapters(std::span<const Linear* const> linears) {
  product_list_.clear();
  added_list_.clear();
  float* inner = memory_.adapter_inner();
  float* scales = memory_.adapter_scales();
  for (const Linear* op : linears) {
    if (!op->adapter) continue;
    find_adapter_runs(*op, scales);
    for (const AdapterRun& run : adapter_runs_) {
      const Product first = products_.product_of_reals(reals(op->x), rows(op->x), op->adapter.a, inner, run.matrix);
      const Product second = products_.product_of_reals(inner, rows(op->x), op->adapter.b, result(op->out), run.matrix);
      product_list_.push_back(Products::part(first, run.first, run.count));
      added_list_.push_back({.product = Products::part(second, run.first, run.count), .scales = scales + run.first});
    }
    inner += rows(op->x) * memory_.weight(op->adapter.a).shape.rows;
    scales += rows(op->x);
  }
  if (product_list_.empty()) return;
  products_.multiply(product_list_);
  products_.multiply(added_list_);
}

bool Executor::find_adapter_runs(const Experts& op, std::span<const ExpertRows> groups) {
  adapter_runs_.clear();
  if (!op.adapters) return false;
  const uint32_t experts = memory_.weight(op.gate).shape.experts;
  for (const ExpertRows& group : groups) {
    for (uint64_t i = group.first; i < group.first + group.count; ++i) {
      const uint64_t row = step_row(op.x, chosen_[i].row);
      const int32_t slot = *integers(op.adapters.slots, row);
      const float scale = *reals(op.adapters.scales, row);
      CHECK(slot >= 0);
      memory_.adapter_scales()[i] = scale;
      if (slot == 0 || scale == 0.0f) continue;
      const uint32_t matrix = static_cast<uint32_t>(slot - 1) * experts + group.expert;
      const bool goes_on = !adapter_runs_.empty() && adapter_runs_.back().matrix == matrix &&
                           adapter_runs_.back().first + adapter_runs_.back().count == i;
      if (!goes_on) adapter_runs_.push_back({.matrix = matrix, .first = i});
      ++adapter_runs_.back().count;
    }
  }
  return !adapter_runs_.empty();
}

void Executor::list_adapter(const AdapterOperand& adapter, const float* x, float* inner, float* out,
                            std::vector<Product>& firsts, std::vector<AddedProduct>& seconds) {
  if (!adapter) return;
  for (const AdapterRun& run : adapter_runs_) {
    CHECK(run.matrix < memory_.weight(adapter.a).shape.experts);
    const Product first = products_.product_of_reals(x, chosen_.size(), adapter.a, inner, run.matrix);
    const Product second = products_.product_of_reals(inner, chosen_.size(), adapter.b, out, run.matrix);
    firsts.push_back(Products::part(first, run.first, run.count));
    seconds.push_back(
        {.product = Products::part(second, run.first, run.count), .scales = memory_.adapter_scales() + run.first});
  }
}

}  // namespace sluice::cpu
