// Parity cases of gather, scatter, pool and slice.
#include "graph/cases.h"

namespace sluice {
namespace {

// Rows of a picture side by side, as a strided convolution takes them.
OpCase patches_case(uint32_t count, uint32_t from, uint32_t to, uint32_t width) {
  CaseBuilder c(cat(count, " of ", width, " columns, ", from, " rows to ", to));
  const Extent extent{Symbol::media_rows, from};
  const Value x = c.input(width, 1, {}, extent);
  const Value index = c.integers(count, {.rows_of = extent}, {Symbol::media_rows, to});
  const Value patches = gather(x, index);
  c.output(patches);
  c.output(scale(flatten(patches), 0.5f));
  c.media_steps();
  return c.done();
}

// Of a step's rows, with heads; the rows that see each other stay together.
OpCase text_gather_case() {
  CaseBuilder c("rows of text, 3 heads of 5");
  const Value x = c.input(5, 3);
  c.output(gather(x, c.integers(1, {.rows_of = {}})));
  c.output(gather(x, c.integers(2, {.rows_of = {}})));
  c.whole_runs();
  c.row_steps({1, 0, 17});
  c.step({{.sequence = 2, .position = 9, .rows = 65}, {.sequence = 0, .rows = 3}});
  return c.done();
}

OpCase scatter_case(uint32_t heads, uint32_t width) {
  CaseBuilder c(cat(heads, " heads of ", width));
  const Value x = c.input(width, heads);
  const Value index = c.integers(1, {.rows_of = {Symbol::media_rows}});
  const Value rows = c.input(heads * width, 1, {.low = 2, .high = 3}, {Symbol::media_rows});
  c.output(scatter(x, index, rows));
  c.add_step({.runs = {{.rows = 65}, {.sequence = 1, .rows = 3}}, .media = {{.rows = 9}, {.sequence = 1, .rows = 1}}});
  c.add_step({.runs = {{.rows = 17}}});
  c.add_step({.media = {{.rows = 4}}});
  c.add_step({});
  return c.done();
}

// As text programs have it: a device may put the rows in their place while it decodes the table.
OpCase scatter_embedding_case() {
  constexpr uint32_t kIds = 40, kWidth = 33;
  CaseBuilder c("rows of a table, or of a picture");
  const Value ids = c.integers(1, {.low = 0, .high = kIds - 1});
  const Value embedded = embed(ids, c.weight({.rows = kIds, .columns = kWidth}), 1.5f);
  const Value index = c.integers(1, {.rows_of = {Symbol::media_rows}});
  const Value rows = c.input(kWidth, 1, {.low = 2, .high = 3}, {Symbol::media_rows});
  const Value x = scatter(embedded, index, rows);
  c.output(x);
  c.output(scale(x, 0.5f));
  c.add_step({.runs = {{.rows = 65}, {.sequence = 1, .rows = 3}}, .media = {{.rows = 9}, {.sequence = 1, .rows = 1}}});
  c.add_step({.runs = {{.rows = 17}}});
  c.add_step({.runs = {{.rows = 1}}});
  c.add_step({});
  return c.done();
}

OpCase pool_case(uint32_t heads, uint32_t width, bool has_shares, float factor) {
  CaseBuilder c(cat(heads, " heads of ", width, has_shares ? ", shares" : "", ", factor ", factor));
  const Value x = c.input(width, heads);
  c.output(has_shares ? pool(x, c.input(heads), factor) : pool(x, factor));
  c.row_steps(kRowCounts);
  return c.done();
}

// Blocks of a picture's patches become one row each, by their sum or side by side; and a row's heads become rows.
OpCase blocks_of_patches_case() {
  CaseBuilder c("blocks of 9 patches of 20 columns");
  const Value x = c.input(20, 1, {}, {Symbol::media_rows, 9});
  const Value block = fold(x, 9);
  c.output(pool(block, 1.0f / 9));
  c.output(linear(flatten(block), c.weight({.rows = 5, .columns = 180})));
  const Value part = fold(add(x, x), 3);
  c.output(pool(part, c.input(3, 1, {}, {Symbol::media_rows, 3}), 2.0f));
  const Value rows = unfold(heads(scale(flatten(block), 0.5f), 18));
  c.output(l2_norm(rows, 1e-6f));
  c.media_steps();
  return c.done();
}

}  // namespace

std::vector<OpCase> Gather::cases() {
  std::vector<OpCase> cases;
  for (const uint32_t width : kWidths) {
    CaseBuilder c(cat("2 heads of ", width));
    const Value x = c.input(width, 2);
    c.output(gather(x, c.wanted()));
    c.step({{.rows = 1}});
    c.step({{.rows = 17}}, {});
    c.step({{.rows = 17}}, {16});
    c.step({{.sequence = 2, .position = 9, .rows = 65}, {.sequence = 0, .rows = 3}}, {64, 67});
    c.step({{.rows = 300}}, {0, 1, 63, 64, 65, 127, 128, 255, 299});
    c.step({{.rows = 64}});
    c.step({}, {});
    cases.push_back(c.done());
  }
  cases.push_back(patches_case(1, 4, 1, 33));
  cases.push_back(patches_case(9, 4, 1, 7));
  cases.push_back(patches_case(3, 1, 2, 64));
  cases.push_back(patches_case(9, 8, 4, 1));
  cases.push_back(text_gather_case());
  return cases;
}

std::vector<OpCase> Scatter::cases() {
  std::vector<OpCase> cases;
  cases.reserve(std::size(kWidths));
  for (const uint32_t width : kWidths) cases.push_back(scatter_case(width == 7 ? 3 : 1, width));
  cases.push_back(scatter_embedding_case());
  return cases;
}

std::vector<OpCase> Pool::cases() {
  std::vector<OpCase> cases;
  for (const uint32_t width : kWidths) {
    cases.push_back(pool_case(9, width, false, 1.0f / 9));
    cases.push_back(pool_case(4, width, true, 1.0f));
  }
  cases.push_back(pool_case(1, 20, false, 3.0f));
  cases.push_back(pool_case(33, 20, true, 0.5f));
  cases.push_back(blocks_of_patches_case());
  return cases;
}

std::vector<OpCase> Slice::cases() {
  std::vector<OpCase> cases;
  for (const uint32_t width : kWidths)
    for (const uint32_t first : {0u, 1u, 3u}) {
      CaseBuilder c(cat("heads from ", first, " of 5 of ", width));
      c.output(slice(c.input(width, 5), first, first == 3 ? 2 : 1));
      c.row_steps(width == 33 ? kRowCounts : kFewRows);
      cases.push_back(c.done());
    }
  for (const uint32_t width : kWidths) {
    CaseBuilder c(cat("every second and third of 6 heads of ", width));
    const Value x = c.input(width, 6);
    c.output(slice(x, 0, 3, 2));
    c.output(slice(x, 1, 3, 2));
    c.output(slice(x, 2, 2, 3));
    c.row_steps(kFewRows);
    cases.push_back(c.done());
  }
  return cases;
}

}  // namespace sluice
