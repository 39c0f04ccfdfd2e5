#include "train/kept_layers.h"

#include <map>

namespace sluice {
namespace {

std::map<Domain, uint64_t> by_domain(const std::vector<MemoryLine>& lines) {
  std::map<Domain, uint64_t> sums;
  for (const MemoryLine& line : lines) sums[line.domain] += line.bytes;
  return sums;
}

}  // namespace

Result<uint32_t> most_kept_layers(uint32_t layers, const Budget& budget, KeptMemory most, const MemoryOfKept& memory) {
  TRY(const std::vector<MemoryLine> least, memory(0));
  const std::map<Domain, uint64_t> needed = by_domain(least);
  const auto fits = [&](uint32_t kept) {
    const Result<std::vector<MemoryLine>> lines = memory(kept);
    if (!lines.ok() || !budget.has_room(*lines).ok()) return false;  // a GPU's buffers have limits, too
    if (most == KeptMemory::to_limit) return true;
    for (const auto& [domain, bytes] : by_domain(*lines))
      if (bytes > needed.at(domain) + needed.at(domain) / 2) return false;
    return true;
  };
  if (fits(layers)) return layers;
  // Memory grows with every layer.
  uint32_t found = 0, too_many = layers;
  while (too_many - found > 1) {
    const uint32_t middle = found + (too_many - found) / 2;
    (fits(middle) ? found : too_many) = middle;
  }
  return found;
}

}  // namespace sluice
