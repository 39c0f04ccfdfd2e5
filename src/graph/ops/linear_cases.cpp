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

OpCase adapter_case(Format format, Size size, const CaseAdapters& adapters, Fill fill = {},
                    const std::vector<uint32_t>& row_counts = {1, 0, 5, 17, 70}) {
  CaseBuilder c(cat("adapters of rank ", adapters.rank, " in ", format_name(adapters.a), " and ",
                    format_name(adapters.b), ", ", format_name(format), " [", size.rows, ", ", size.columns,
                    "], inputs to ", fill.high, adapters.slots > 9 ? cat(", slots ", adapters.slots) : ""));
  c.adapters(adapters);
  c.output(linear(c.input(size.columns, 1, fill), c.weight({.rows = size.rows, .columns = size.columns}, format)));
  c.row_steps(row_counts);
  return c.done();
}

// The head's rows are the wanted ones; their slots are those of the rows that they stand for.
OpCase wanted_adapter_case() {
  CaseBuilder c("adapters of wanted rows");
  c.adapters({.rank = 4, .a = Format::f16, .b = Format::f16});
  const Value x = c.input(64);
  c.output(linear(gather(x, c.wanted()), c.weight({.rows = 100, .columns = 64}, Format::bf16)));
  c.step({{.sequence = 0, .rows = 9}, {.sequence = 1, .position = 3, .rows = 2}}, {2, 3, 8, 9});
  c.step({{.sequence = 0, .rows = 1}});
  return c.done();
}

// A device may compute the first factors of all of them at once.
OpCase same_rows_case(uint32_t slots) {
  CaseBuilder c(cat("adapters of products of the same rows, slots ", slots));
  c.adapters({.slots = slots, .rank = 6, .a = Format::bf16, .b = Format::f16});
  const Value x = c.input(76);
  for (const uint32_t rows : {48u, 100u, 64u})
    c.output(linear(x, c.weight({.rows = rows, .columns = 76}, Format::bf16)));
  c.row_steps({1, 70});
  return c.done();
}

// So many outputs that devices take their largest tiles, for up to 64 rows and for more.
OpCase many_outputs_case(Size size, uint32_t rows) {
  CaseBuilder c(cat("many outputs, [", size.rows, ", ", size.columns, "], ", rows, " rows"));
  c.output(linear(c.input(size.columns), c.weight({.rows = size.rows, .columns = size.columns}, Format::bf16)));
  c.row_steps({rows});
  return c.done();
}

std::vector<OpCase> adapter_cases() {
  std::vector<OpCase> cases = {
      adapter_case(Format::f32, {1, 1}, {.rank = 1}),
      adapter_case(Format::f32, {7, 5}, {.slots = 1, .rank = 16}),
      adapter_case(Format::f16, {33, 17}, {.rank = 8, .a = Format::bf16, .b = Format::f16}),
      adapter_case(Format::bf16, {100, 70}, {.slots = 5, .rank = 33, .a = Format::f16, .b = Format::bf16}),
      adapter_case(Format::bf16, {600, 20}, {.rank = 3, .a = Format::bf16, .b = Format::f32}),
      adapter_case(Format::bf16, {50, 20}, {.rank = 16}, {.low = -1e6f, .high = 1e6f}),
      wanted_adapter_case(),
      same_rows_case(1),
      // More adapters in a step than a device may list.
      adapter_case(Format::bf16, {24, 40}, {.slots = 200, .rank = 2, .a = Format::f16, .b = Format::f16}, {}, {150}),
  };
  for (const Format format : {Format::q8_0, Format::q4_0, Format::q4_k, Format::q6_k})
    cases.push_back(adapter_case(format, {256, 132}, {.rank = 16, .a = Format::f16, .b = Format::f16}));
  cases.push_back(same_rows_case(3));  // the last one, which `make test` plays on every device
  return cases;
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

  // Few outputs of many columns, whose sums a device may make in parts.
  cases.push_back(linear_case(Format::f32, {1540, 13}, {}));
  cases.push_back(linear_case(Format::q4_k, {1024, 16}, {}));

  CaseBuilder c("heads flattened");
  c.output(linear(c.input(11, 3), c.weight({.rows = 9, .columns = 33})));
  c.row_steps({1, 5});
  cases.push_back(c.done());
  cases.push_back(many_outputs_case({20, 16950}, 7));
  cases.push_back(many_outputs_case({12, 8490}, 66));
  for (OpCase& one : adapter_cases()) cases.push_back(std::move(one));
  return cases;
}

}  // namespace sluice
