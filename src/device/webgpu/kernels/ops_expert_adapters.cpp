// The adapters of experts. A dispatch before each half writes the inner sums of all choices (ops_adapters.cpp), and the
// half's kernel adds the products with the second factor: a kernel of rows one by one to the sums of a choice, a kernel
// of tiles as further columns of the tile's rows and outputs. A choice of a row without an adapter keeps its sums.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/kernels/experts.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kAdapted = R"(
fn adapted_${i}(choice: u32, output: u32, sums: vec4f) -> vec4f {
  if (matrix_${i}(choice) == NO_MATRIX) { return sums; }
  return fma(vec4f(scale_${i}(choice)), adapter_sums_${i}(choice, output), sums);
}
)";

// Of tiles: ${w} is the i-th product. All choices of a tile have the same expert.
constexpr const char* kMoreOfTile = R"(
const RANK_STEPS_${i} = (INNER_${i} + MORE_COLUMNS - 1u) / MORE_COLUMNS;
fn more_steps_${w}() -> u32 { return counts.slot_count * RANK_STEPS_${i}; }
fn more_x_${w}(step: u32, i: u32, part: u32) -> vec4f {
  let choice = choice_of(i);
  let rank = step % RANK_STEPS_${i} * MORE_COLUMNS + part * 4u;
  if (rank >= INNER_${i} || !has_slot(p.slots_${i}, choice, step_slot(step / RANK_STEPS_${i}))) { return vec4f(); }
  return load4(p.inner_${i} + choice * INNER_${i} + rank) * scale_${i}(choice);
}
fn more_w_${w}(step: u32, i: u32, output: u32, part: u32) -> vec4f {
  let matrix = (step_slot(step / RANK_STEPS_${i}) - 1u) * EXPERTS + word(p.index + choice_of(i));
  let b = b${i}_sixteen(matrix * B_ROWS_${i} + output, step % RANK_STEPS_${i});
  return select(select(b[0], b[1], part == 1u), select(b[2], b[3], part == 3u), part >= 2u);
}
)";

}  // namespace

Emitter::AdaptedRows Emitter::ExpertsKernels::inward_rows() const {
  return {.extent = emitter.type(op.x).extent,
          .x = emitter.at(op.x),
          .columns = hidden,
          .choices = chosen,
          .index = op.index,
          .experts = experts};
}

Emitter::AdaptedRows Emitter::ExpertsKernels::outward_rows() const {
  AdaptedRows rows = inward_rows();
  rows.x = in_tiles ? reals : inner;
  rows.columns = width;
  rows.own_x = true;
  return rows;
}

void Emitter::ExpertsKernels::use_adapters(Kernel& kernel, std::span<const AdaptedProduct> adapted,
                                           const AdaptedRows& rows) const {
  if (std::ranges::none_of(adapted, [](const AdaptedProduct& one) { return bool{one.adapter}; })) return;
  kernel.constants.push_back({"EXPERTS", experts});
  emitter.use_adapters(kernel, adapted, rows);
  for (size_t i = 0; i < adapted.size(); ++i) {
    if (!adapted[i].adapter) continue;
    emitter.use_adapter_sum(kernel, i, adapted[i]);
    kernel.snippets.push_back(fill(kAdapted, {{"i", cat(i)}}));
  }
}

std::vector<const char*> Emitter::ExpertsKernels::use_tile_adapters(Kernel& kernel,
                                                                    std::span<const AdaptedProduct> adapted,
                                                                    std::span<const char* const> names,
                                                                    const AdaptedRows& rows) const {
  std::vector<const char*> more;
  if (std::ranges::none_of(adapted, [](const AdaptedProduct& one) { return bool{one.adapter}; })) return more;
  kernel.constants.insert(kernel.constants.end(), {{"EXPERTS", experts}, {"MORE_COLUMNS", kMoreColumns}});
  emitter.use_adapters(kernel, adapted, rows);
  for (size_t i = 0; i < adapted.size(); ++i) {
    if (!adapted[i].adapter) continue;
    emitter.use_second_factor(kernel, i, adapted[i]);
    kernel.snippets.push_back(fill(kMoreOfTile, {{"i", cat(i)}, {"w", names[i]}}));
    more.push_back(names[i]);
  }
  return more;
}

std::string Emitter::ExpertsKernels::adapted_sums(std::span<const AdaptedProduct> adapted, size_t i, const char* choice,
                                                  const char* output, const std::string& sums) {
  if (!adapted[i].adapter) return sums;
  return cat("adapted_", i, "(", choice, ", ", output, ", ", sums, ")");
}

}  // namespace sluice::webgpu
