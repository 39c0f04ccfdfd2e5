// A queue of reads that ends them late, in any order, in part, with errors, or as a file that became shorter would: as
// its script says. Until a read has ended its memory holds what would not pass for weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/files/read_queue.h"

namespace sluice {

struct ReadScript {
  uint32_t seed = 0;   // of order, delays and lengths
  uint32_t turns = 0;  // the most that a read takes, in calls of take_ended()
  uint32_t depth = 4;
  bool in_background = true;
  bool stalled = false;                // none ends
  bool short_reads = false;            // most end before they are whole, behind a block or within one
  int64_t failing = -1;                // the read of that number ends with `error_number`
  int error_number = 5;                // EIO
  uint64_t file_bytes = ~uint64_t{0};  // the files end there at the latest

  int64_t reads = 0;  // that began
  uint64_t most_under_way = 0;
};

// `script` outlives it.
std::unique_ptr<ReadQueue> make_scripted_reads(const std::vector<std::string>& paths, ReadScript& script);

}  // namespace sluice
