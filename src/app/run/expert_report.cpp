#include "app/run/expert_report.h"

#include <cstdio>

#include "base/text.h"

namespace sluice {

std::string expert_text(const ExpertStats& stats) {
  const uint64_t hits = stats.uses - stats.misses;
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "%.1f %% of %llu uses",
                stats.uses == 0 ? 0 : 100 * static_cast<double>(hits) / static_cast<double>(stats.uses),
                static_cast<unsigned long long>(stats.uses));
  char waited[32];
  std::snprintf(waited, sizeof waited, "%.2f s", stats.waited_seconds);
  return cat("experts ", numbers, " found in ", stats.slots, " slots for ", stats.experts, ", ", stats.misses,
             " missed; ", stats.ahead, " read ahead, ", stats.ahead_used, " of them used, ", stats.ahead_wasted,
             " in vain", stats.warmed == 0 ? "" : cat(", ", stats.warmed, " as they were hot the last time"), "; ",
             format_bytes(stats.read_bytes), " in ", stats.reads, " reads (", stats.reader, "), waited for ", waited,
             "\n");
}

}  // namespace sluice
