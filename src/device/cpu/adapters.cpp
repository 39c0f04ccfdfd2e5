// The adapters of products. Runs of neighbouring rows with the same slot are multiplied by both factors together: by
// the first one beside the product that they are added to, by the second one as parts of it are done.
//
// The kernels' sums do not depend on the number of rows, so the length of a run changes no bit.
#include "device/cpu/executor.h"

namespace sluice::cpu {

void Executor::begin_adapters() {
  additions_.clear();
  products_.begin_first();
}

// Finds runs of rows with one slot and scales other than 0. A wanted row has the slot and scale of the step's row
// that it stands for. Writes one scale a row to `scales`.
void Executor::find_adapter_runs(const Linear& op, float* scales) {
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

void Executor::list_adapters(std::span<const Linear* const> linears, std::span<Product> products) {
  begin_adapters();
  float* inner = memory_.adapter_inner();
  float* scales = memory_.adapter_scales();
  for (const Linear* op : linears) {
    if (!op->adapter) continue;
    adapter_runs_.clear();
    find_adapter_runs(*op, scales);
    list_adapter(op->adapter,
                 {.x = reals(op->x), .rows = rows(op->x), .out = result(op->out), .inner = inner, .scales = scales});
    inner += rows(op->x) * memory_.weight(op->adapter.a).shape.rows;
    scales += rows(op->x);
  }
  std::span<const Addition> rest = additions_;
  scales = memory_.adapter_scales();
  for (size_t i = 0; i < linears.size(); ++i) {
    if (!linears[i]->adapter) continue;
    scales += rows(linears[i]->x);
    products[i].additions = take_additions(rest, scales);
  }
}

void Executor::find_adapter_runs(const Experts& op, std::span<const ExpertRows> groups) {
  adapter_runs_.clear();
  if (!op.adapters) return;
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
}

void Executor::list_adapter(const AdapterOperand& adapter, const AdaptedRows& rows) {
  if (!adapter) return;
  for (const AdapterRun& run : adapter_runs_) {
    CHECK(run.matrix < memory_.weight(adapter.a).shape.experts);
    const Product inner = products_.product_of_reals(rows.x, rows.rows, adapter.a, rows.inner, run.matrix);
    products_.first(Products::part(inner, run.first, run.count));
    additions_.push_back(
        products_.addition(rows.inner, adapter.b, rows.out, rows.scales, run.matrix, run.first, run.count));
  }
}

std::span<const Addition> Executor::take_additions(std::span<const Addition>& from, const float* scales) {
  size_t count = 0;
  while (count < from.size() && from[count].scales < scales) ++count;
  const std::span<const Addition> taken = from.first(count);
  from = from.subspan(count);
  return taken;
}

}  // namespace sluice::cpu
