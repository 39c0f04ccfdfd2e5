#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/check_handler.h"

namespace sluice {
namespace {

CheckHandler handler = nullptr;

}  // namespace

void set_check_handler(CheckHandler to) { handler = to; }

void check_failed(const char* condition, const char* file, int line) {
  if (handler != nullptr) handler(condition, file, line);
  std::fprintf(stderr, "sluice: internal error: %s:%d: %s does not hold\n", file, line, condition);
  std::abort();
}

}  // namespace sluice
