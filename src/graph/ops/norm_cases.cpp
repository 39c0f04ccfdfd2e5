// Parity cases of rms_norm, l2_norm and layer_norm.
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

struct LayerNormCase {
  uint32_t heads = 1, width = 1;
  bool weighted = false, biased = false;
  Format format = Format::f32;
  Fill fill{};
  float eps = 1e-6f;
};

OpCase layer_norm_case(const LayerNormCase& one) {
  CaseBuilder c(cat(one.heads, " heads of ", one.width, one.weighted ? ", weight" : "", one.biased ? ", bias" : "",
                    ", ", format_name(one.format), ", inputs to ", one.fill.high));
  const Value x = c.input(one.width, one.heads, one.fill);
  const auto factor = [&](bool given, Fill fill) {
    return given ? c.weight({.columns = one.width}, one.format, fill) : Weight{};
  };
  const Weight weight = factor(one.weighted, {.low = 0.5f, .high = 2.0f}), bias = factor(one.biased, {});
  c.output(layer_norm(x, weight, bias, one.eps));
  c.row_steps(kRowCounts);
  return c.done();
}

// Rows of a tower; the weights are of whole blocks of them.
OpCase folded_norm_case() {
  CaseBuilder c("blocks of four patches");
  const Value x = c.input(20, 1, {}, {Symbol::media_rows, 4});
  const Weight weight = c.weight({.columns = 20}), bias = c.weight({.columns = 20});
  c.output(layer_norm(x, weight, bias, 1e-6f));
  c.output(layer_norm(flatten(fold(x, 4)), Weight{}, c.weight({.columns = 80}), 1e-5f));
  c.media_steps();
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

std::vector<OpCase> LayerNorm::cases() {
  std::vector<OpCase> cases;
  // A plain patch of a picture: what its numbers differ by is less than the error of a sum of them.
  cases.push_back(layer_norm_case({.width = 6912, .fill = {.low = 0.2f, .high = 0.200002f}, .eps = 1e-5f}));
  for (const uint32_t width : kWidths) {
    cases.push_back(layer_norm_case({.width = width, .weighted = true, .biased = true}));
    // A head of one element is nothing but its bias.
    if (width > 1) cases.push_back(layer_norm_case({.heads = 3, .width = width}));
  }
  cases.push_back(layer_norm_case(
      {.width = 70, .weighted = true, .biased = true, .format = Format::bf16, .fill = {.low = -1e6f, .high = 1e6f}}));
  // The mean is far from 0.
  cases.push_back(layer_norm_case({.heads = 2, .width = 100, .weighted = true, .fill = {.low = 7, .high = 9}}));
  cases.push_back(layer_norm_case({.heads = 5, .width = 20, .biased = true, .format = Format::f16}));
  // Where eps decides.
  cases.push_back(layer_norm_case({.heads = 2, .width = 50, .fill = {.low = -1e-3f, .high = 1e-3f}}));
  cases.push_back(folded_norm_case());
  return cases;
}

}  // namespace sluice
