// What becomes of a kernel's text; no GPU is wanted.
#include "device/webgpu/kernel.h"

#include <gtest/gtest.h>

namespace sluice::webgpu {
namespace {

TEST(LoopsKept, BeginAtANumberThatDriversDoNotKnow) {
  EXPECT_EQ(with_loops_kept("fn f() {\n  for (var i = 0u; i < 4u; i++) { g(i); }\n"
                            "  for (var step = LANES / 2u; step > 0u; step = step / 2u) { h(step); }\n}\n"),
            "fn f() {\n  for (var i = 0u + counts.zero; i < 4u; i++) { g(i); }\n"
            "  for (var step = LANES / 2u + counts.zero; step > 0u; step = step / 2u) { h(step); }\n}\n");
  const std::string without = "fn f() { while (i > 0u) { i--; } let forever = 1u; }\n";
  EXPECT_EQ(with_loops_kept(without), without);
}

// Rows that choose 8 each, listed expert by expert: a list ends within a tile, but no tile is without a choice.
TEST(Grid, HasATileMoreForEachList) {
  const Grid grid{.items = 8, .per = 32, .lists = 128, .times = 11};
  EXPECT_EQ(grid.workgroups(512, 0), (128 + 128) * 11u);
  EXPECT_EQ(grid.workgroups(1, 0), 8 * 11u);
  EXPECT_EQ(grid.workgroups(0, 0), 0u);
}

}  // namespace
}  // namespace sluice::webgpu
