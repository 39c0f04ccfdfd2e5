// The speed at which the disk under a model's files reads blocks past the page cache, with many reads at once. The
// expert store waits for such reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

// Bytes a second when blocks of `block_bytes` are read all over the files; 0 if the files are too short to tell.
Result<double> measure_disk(const std::vector<std::string>& paths, uint64_t block_bytes);

}  // namespace sluice
