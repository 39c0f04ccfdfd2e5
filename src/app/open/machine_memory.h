// The memory that this process may use: the machine's, or its control group's if that is less.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

uint64_t machine_memory_bytes();

// The memory that this process uses now. If the system does not tell the kinds apart, all of it counts as its own.
struct ResidentMemory {
  uint64_t anonymous = 0;  // its own
  uint64_t file = 0;       // pages of mapped files, the program's own among them
};
ResidentMemory resident_memory();
// The peak since the program began. Unlike getrusage, it excludes the process that started the program.
uint64_t peak_memory_bytes();

// Parses memory.max or memory.limit_in_bytes: a number of bytes, or "max" for no limit.
std::optional<uint64_t> parse_group_limit(std::string_view text);

}  // namespace sluice
