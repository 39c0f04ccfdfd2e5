// CHECK: our own mistakes, never reachable by input. Prints the condition and place, then aborts; on in every build,
// because a wrong answer costs more than a branch.
#pragma once

namespace sluice {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace sluice

#define CHECK(condition) ((condition) ? static_cast<void>(0) : ::sluice::check_failed(#condition, __FILE__, __LINE__))
