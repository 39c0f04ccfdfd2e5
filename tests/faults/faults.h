// Makes the system fail this program: the n-th large allocation, the n-th call that reads files. faults.cpp stands in
// for operator new and for the calls of the system's library, so that the loaders run as they are.
#pragma once

#include <cstdint>
#include <functional>

namespace sluice::faults {

inline constexpr uint64_t kLarge = 512;  // bytes of an allocation that is counted

enum class Kind : uint8_t {
  none,
  allocation,    // throws bad_alloc
  read_error,    // open, stat, map, list or read fails with an error number
  read_nothing,  // a read finds the end of the file, as in one that was cut meanwhile
  read_less,     // a read gives half of what was asked, which is no fault
};

struct Outcome {
  uint64_t calls = 0;  // that could have failed
  bool struck = false;
};
// Runs `work` with the call numbered `nth` (from 0) failing, and only that one.
Outcome strike(Kind kind, uint64_t nth, const std::function<void()>& work);

}  // namespace sluice::faults
