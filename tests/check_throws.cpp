// In every test program: a CHECK that does not hold, as of a Result that is used although it is an error, throws.
// googletest takes that for the failure of the test it happened in, and runs the others. On another thread, or where
// nothing may throw, the process ends as it would without this.
#include <stdexcept>

#include "base/check_handler.h"
#include "base/text.h"

namespace sluice {
namespace {

[[noreturn]] void throw_failure(const char* condition, const char* file, int line) {
  throw std::logic_error(cat(file, ":", line, ": ", condition, " does not hold"));
}

[[maybe_unused]] const bool kInstalled = (set_check_handler(throw_failure), true);

}  // namespace
}  // namespace sluice
