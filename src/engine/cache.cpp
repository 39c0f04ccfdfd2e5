#include "engine/cache.h"

#include <algorithm>

namespace sluice {

bool CachedHistory::holds_pages() const {
  return std::any_of(tables.begin(), tables.end(), [](const PageTable& table) { return table.end() > table.first(); });
}

Cache::Cache(std::vector<PageGroup> groups, std::span<const uint32_t> pages, bool any_class)
    : groups_(std::move(groups)), tree_(any_class), any_class_(any_class) {
  CHECK(pages.size() == groups_.size());
  pools_.reserve(pages.size());
  for (const uint32_t count : pages) pools_.emplace_back(count);
}

CachedHistory Cache::empty() {
  CachedHistory sequence;
  for (PagePool& pool : pools_) sequence.tables.emplace_back(pool);
  return sequence;
}

void Cache::drop(CachedHistory& sequence) {
  for (PageTable& table : sequence.tables) table.clear();
  sequence.cached = 0;
}

// Whether all that a row at `position` sees is there.
bool Cache::covers(const CachedHistory& sequence, uint32_t position) const {
  for (uint32_t g = 0; g < groups(); ++g) {
    if (sequence.tables[g].first() > first_seen_page(window(g), position)) return false;
  }
  return true;
}

void Cache::resume(CachedHistory& sequence, uint32_t bound) {
  const uint32_t own = last_cut(sequence.history, std::min(sequence.cached, bound));
  const bool has_own = own > 0 && covers(sequence, own);
  const Snapshot* snapshot = tree_.find(sequence.history, bound);
  if (snapshot != nullptr && (!has_own || snapshot->length > own)) {
    sequence.tables = snapshot->tables;
    sequence.cached = snapshot->length;
  } else if (has_own) {
    for (PageTable& table : sequence.tables) table.drop_from(pages_for(own));
    sequence.cached = own;
  } else {
    drop(sequence);
  }
}

bool Cache::provide(CachedHistory& sequence, uint32_t end, std::vector<PageCopy>& copies) {
  const uint32_t written = sequence.cached / kPagePositions;
  for (uint32_t g = 0; g < groups(); ++g) {
    PageTable& table = sequence.tables[g];
    if (sequence.cached % kPagePositions != 0 && table.shared(written)) {
      const auto copy = table.unshare(written);
      if (!copy) return false;
      copies.push_back({g, copy->from, copy->to});
    }
    while (table.end() < pages_for(end)) {
      if (!table.grow()) return false;
    }
  }
  return true;
}

void Cache::advance(CachedHistory& sequence, uint32_t end, std::span<const uint32_t> marks) {
  const uint32_t begin = sequence.cached;
  sequence.cached = end;
  for (const uint32_t mark : marks) {
    if (mark > begin && mark <= end) insert(sequence, mark);
  }
  for (uint32_t g = 0; g < groups(); ++g) {
    sequence.tables[g].drop_before(first_seen_page(window(g), cut_below(end)));
  }
}

uint32_t Cache::whole_blocks(const CachedHistory& sequence) const {
  const uint32_t length = cut_below(sequence.cached);
  return covers(sequence, length) ? length : 0;
}

void Cache::remember(const CachedHistory& sequence) {
  const uint32_t length = whole_blocks(sequence);
  if (length > 0) insert(sequence, length);
}

void Cache::insert(const CachedHistory& sequence, uint32_t length) {
  Snapshot snapshot{length, {}};
  for (uint32_t g = 0; g < groups(); ++g) {
    const uint32_t end = pages_for(length);
    snapshot.tables.push_back(sequence.tables[g].part(std::min(first_seen_page(window(g), length), end), end));
  }
  tree_.insert(sequence.history, std::move(snapshot));
}

}  // namespace sluice
