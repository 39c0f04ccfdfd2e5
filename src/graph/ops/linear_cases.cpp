// Parity cases of linear.
#include "graph/cases.h"

namespace sluice {
namespace {

struct Size {
  uint32_t columns = 0, rows = 0;
};

OpCase linear_case(Format format, Size size, Fill fill) {
  CaseBuilder c(cat(format_name(format), " [", size.rows, ", ", size.columns, "], inputs to ", fill.high));
  c.output(linear(c.input(size.columns, 1, fill), c.weight({.rows = size.rows, .columns = size.columns}, format)));
  c.row_steps(size.columns > 200 ? std::vector<uint32_t>{1, 65} : kRowCounts);
  return c.done();
}

}  // namespace

std::vector<OpCase> Linear::cases() {
  std::vector<OpCase> cases;
  for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
    for (const Size size : {Size{1, 1}, {7, 5}, {33, 17}, {100, 70}, {256, 130}})
      cases.push_back(linear_case(format, size, {}));
    cases.push_back(linear_case(format, {50, 20}, {.low = -1e6f, .high = 1e6f}));
  }
  for (const Size size : {Size{32, 1}, {96, 5}, {160, 33}, {256, 130}})
    cases.push_back(linear_case(Format::q8_0, size, {}));
  cases.push_back(linear_case(Format::q8_0, {64, 20}, {.low = -1e6f, .high = 1e6f}));
  for (const Format format : block_formats())
    cases.push_back(linear_case(format, {3 * format_info(format).block_elements, 19}, {}));

  CaseBuilder c("heads flattened");
  c.output(linear(c.input(11, 3), c.weight({.rows = 9, .columns = 33})));
  c.row_steps({1, 5});
  cases.push_back(c.done());
  return cases;
}

}  // namespace sluice
