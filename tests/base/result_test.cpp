#include "base/result.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unwrap.h"

namespace sluice {
namespace {

const Result<int> kError = error(ErrorKind::invalid, "file: found 3: want 4");

// Such a use once ended the program, and every later test was skipped.
TEST(Result, UsingAnErrorAsAValueFailsOneTestOnly) { EXPECT_THROW(static_cast<void>(*kError), std::logic_error); }

TEST(Result, UnwrappingAnErrorFailsTheTestWithItsSentence) {
  EXPECT_EQ(unwrap(Result<int>(7)), 7);
  try {
    unwrap(kError);
    FAIL();
  } catch (const std::runtime_error& failure) {
    EXPECT_STREQ(failure.what(), "file: found 3: want 4");
  }
}

}  // namespace
}  // namespace sluice
