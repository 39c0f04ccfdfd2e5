// Tests that fail on purpose, for tests/runner/check.sh.
#include <gtest/gtest.h>

#include <cstdlib>

namespace {

TEST(Aborting, Before) {}
TEST(Aborting, Aborts) { std::abort(); }
TEST(Aborting, Between) {}
TEST(Aborting, Leaves) { std::exit(0); }
TEST(Aborting, After) {}

}  // namespace
