// Parity cases of gather and slice.
#include "graph/cases.h"

namespace sluice {

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
