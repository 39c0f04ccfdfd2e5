// CHECK finds programming mistakes; no input may make one fail. A failed CHECK prints the condition and its place and
// aborts. CHECKs are on in every build, because a wrong answer costs more than a branch.
#pragma once

namespace sluice {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace sluice

#define CHECK(condition) ((condition) ? static_cast<void>(0) : ::sluice::check_failed(#condition, __FILE__, __LINE__))
