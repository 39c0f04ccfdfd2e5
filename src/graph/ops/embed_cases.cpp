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
  return cases;
}

}  // namespace sluice
