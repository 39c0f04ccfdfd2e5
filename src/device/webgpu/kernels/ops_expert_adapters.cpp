// The adapters of experts. A dispatch before each half writes the inner sums of all choices (ops_adapters.cpp), and the
// half's kernel adds the second factor to its sums. A choice of a row without an adapter keeps its sums.
#include "base/text.h"
#include "device/webgpu/kernels/experts.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kAdapted = R"(
fn adapted_${i}(choice: u32, output: u32, sums: vec4f, count: u32) -> vec4f {
  if (matrix_${i}(choice) == NO_MATRIX) { return sums; }
  return fma(vec4f(scale_${i}(choice)), adapter_sums_${i}(choice, output, count), sums);
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

std::string Emitter::ExpertsKernels::adapted_sums(std::span<const AdaptedProduct> adapted, size_t i, const char* choice,
                                                  const char* output, const std::string& sums, uint32_t count) {
  if (!adapted[i].adapter) return sums;
  return cat("adapted_", i, "(", choice, ", ", output, ", ", sums, ", ", count, "u)");
}

}  // namespace sluice::webgpu
