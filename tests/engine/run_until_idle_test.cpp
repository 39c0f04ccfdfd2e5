#include "tests/engine/run_until_idle.h"

#include <gtest/gtest-spi.h>

#include <limits>

#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

// It once hung the whole test program until its time was over.
TEST(RunUntilIdle, AnEngineThatIsNeverDoneFailsItsTest) {
  fake::Script never;
  never.polls_until_done = std::numeric_limits<uint32_t>::max();
  static FakeEngine* stuck = nullptr;  // the macro takes no locals
  FakeEngine fake({}, never);
  stuck = &fake;
  fake.submit(greedy({1, 2, 3}, 1));
  EXPECT_FATAL_FAILURE(run_until_idle(*stuck->engine), "the engine is not idle after 100000 steps");
}

}  // namespace
}  // namespace sluice
