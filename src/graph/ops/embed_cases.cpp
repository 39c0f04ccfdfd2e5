// Parity cases of embed.
#include "graph/cases.h"

namespace sluice {
namespace {

OpCase embed_case(Format format, uint32_t vocabulary, uint32_t width, float scale) {
  CaseBuilder c(cat(format_name(format), " [", vocabulary, ", ", width, "], scale ", scale));
  const Value ids = c.integers(1, {.low = 0, .high = static_cast<float>(vocabulary - 1)});
  c.output(embed(ids, c.weight({.rows = vocabulary, .columns = width}, format), scale));
  c.row_steps(kRowCounts);
  return c.done();
}

// Several rows of the table for each of a picture's, and where a picture's positions lie between those of the table.
OpCase several_ids_case(Format format, uint32_t ids, uint32_t width) {
  CaseBuilder c(cat(ids, " ids a row, ", format_name(format), " of ", width));
  const Extent extent{Symbol::media_rows, 4};
  const Value of_patch = c.integers(ids, {.low = 0, .high = 36}, extent);
  const Weight table = c.weight({.rows = 37, .columns = width}, format);
  c.output(embed(of_patch, table, 1.0f));
  c.output(pool(embed(of_patch, table, 0.5f), c.input(ids, 1, {.low = 0}, extent)));
  c.media_steps();
  return c.done();
}

// Of a step's rows.
OpCase two_ids_of_text_case() {
  CaseBuilder c("2 ids a row of text");
  const Value ids = c.integers(2, {.low = 0, .high = 36});
  c.output(embed(ids, c.weight({.rows = 37, .columns = 20}, Format::bf16), 2.0f));
  c.row_steps(kRowCounts);
  return c.done();
}

OpCase adapter_case(const CaseAdapters& adapters) {
  CaseBuilder c(cat("adapters of rank ", adapters.rank));
  c.adapters(adapters);
  const Value ids = c.integers(1, {.low = 0, .high = 36});
  c.output(embed(ids, c.weight({.rows = 37, .columns = 20}, Format::bf16), 2.0f));
  c.row_steps(kFewRows);
  return c.done();
}

}  // namespace

std::vector<OpCase> Embed::cases() {
  std::vector<OpCase> cases;
  for (const Format format : {Format::f32, Format::f16, Format::bf16})
    for (const uint32_t width : kWidths) cases.push_back(embed_case(format, 37, width, 1.0f));
  for (const uint32_t width : {32u, 96u}) cases.push_back(embed_case(Format::q8_0, 37, width, 1.0f));
  for (const Format format : block_formats())
    cases.push_back(embed_case(format, 9, 2 * format_info(format).block_elements, 0.7f));
  cases.push_back(embed_case(Format::bf16, 1, 20, 16.0f));
  cases.push_back(embed_case(Format::q8_0, 300, 64, 39.19184f));
  cases.push_back(several_ids_case(Format::f32, 2, 33));
  cases.push_back(several_ids_case(Format::bf16, 4, 64));
  cases.push_back(several_ids_case(Format::q8_0, 1, 96));
  cases.push_back(two_ids_of_text_case());
  cases.push_back(adapter_case({.embeddings = {"w1"}}));
  cases.push_back(adapter_case({.rank = 16, .a = Format::f16, .b = Format::bf16, .embeddings = {"w1"}}));
  return cases;
}

}  // namespace sluice
