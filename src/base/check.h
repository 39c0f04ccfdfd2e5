// CHECK is for our own mistakes. No input may reach one. It prints the condition and its place, then aborts. It is on
// in every build, because a wrong answer costs more than a branch.
#pragma once

namespace sluice {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace sluice

#define CHECK(condition) ((condition) ? static_cast<void>(0) : ::sluice::check_failed(#condition, __FILE__, __LINE__))
