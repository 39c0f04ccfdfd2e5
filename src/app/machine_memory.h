// How much memory this process may use: the machine's, or its control group's where that is less.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

uint64_t machine_memory_bytes();
// The content of memory.max: a number of bytes, or "max" for no limit.
std::optional<uint64_t> parse_group_limit(std::string_view text);

}  // namespace sluice
