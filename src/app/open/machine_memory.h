// How much memory this process may use: the machine's, or its control group's where that is less.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

uint64_t machine_memory_bytes();

// What of this process lies in memory now. Where the system does not tell them apart, all of it counts as its own.
struct ResidentMemory {
  uint64_t anonymous = 0;  // its own
  uint64_t file = 0;       // pages of mapped files, the program's own among them
};
ResidentMemory resident_memory();
// The most that lay in memory since the program began; nothing of who started it, as getrusage has it.
uint64_t peak_memory_bytes();

// The content of memory.max or memory.limit_in_bytes: a number of bytes, or "max" for no limit.
std::optional<uint64_t> parse_group_limit(std::string_view text);

}  // namespace sluice
