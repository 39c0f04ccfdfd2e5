// How fast the disk under a model's files gives blocks past the page cache, many reads under way: what the expert store
// waits for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

// Bytes a second of `block_bytes` read from places all over the files; 0 where they are too short to tell.
Result<double> measure_disk(const std::vector<std::string>& paths, uint64_t block_bytes);

}  // namespace sluice
