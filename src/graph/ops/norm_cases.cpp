// Parity cases of rms_norm and l2_norm.
#include "graph/cases.h"

namespace sluice {
namespace {

OpCase norm_case(uint32_t heads, uint32_t width, bool weighted, Format format, Fill fill) {
  CaseBuilder c(cat(heads, " heads of ", width, weighted ? cat(", ", format_name(format), " weight") : "",
                    ", inputs to ", fill.high));
  const Value x = c.input(width, heads, fill);
  c.output(weighted ? rms_norm(x, c.weight({.columns = width}, format, {.low = 0.5f, .high = 2.0f}), 1e-6f)
                    : rms_norm(x, 1e-6f));
  c.row_steps(kRowCounts);
  return c.done();
}

}  // namespace

std::vector<OpCase> RmsNorm::cases() {
  std::vector<OpCase> cases;
  for (const uint32_t width : kWidths) {
    cases.push_back(norm_case(1, width, true, Format::f32, {}));
    cases.push_back(norm_case(3, width, false, Format::f32, {}));
  }
  cases.push_back(norm_case(1, 70, true, Format::bf16, {.low = -1e6f, .high = 1e6f}));
  cases.push_back(norm_case(5, 20, true, Format::f16, {.low = 2.0f, .high = 3.0f}));
  // Where eps decides.
  cases.push_back(norm_case(2, 50, false, Format::f32, {.low = -1e-3f, .high = 1e-3f}));
  return cases;
}

std::vector<OpCase> L2Norm::cases() {
  std::vector<OpCase> cases;
  for (const uint32_t width : kWidths)
    for (const float largest : {1e-3f, 1.0f, 1e6f}) {
      CaseBuilder c(cat("3 heads of ", width, ", inputs to ", largest));
      c.output(l2_norm(c.input(width, 3, {.low = -largest, .high = largest}), 1e-6f));
      c.row_steps(width == 33 ? kRowCounts : kFewRows);
      cases.push_back(c.done());
    }
  return cases;
}

}  // namespace sluice
