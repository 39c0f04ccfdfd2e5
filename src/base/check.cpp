#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sluice {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "sluice: internal error: %s:%d: %s does not hold\n", file, line, condition);
  std::abort();
}

}  // namespace sluice
