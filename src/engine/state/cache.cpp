#include "engine/state/cache.h"

#include <algorithm>

namespace sluice {

bool CachedHistory::holds_pages() const {
  const auto holds = [](const PageTable& table) { return table.end() > table.first(); };
  return std::any_of(tables.begin(), tables.end(), holds) ||
         std::any_of(slots.begin(), slots.end(), [&](const Slots& s) { return holds(s.now) || holds(s.next); });
}

void CachedHistory::truncate(size_t length) {
  history.resize(length);
  grids.truncate(length);
}

Cache::Cache(std::vector<PageGroup> groups, std::span<const uint32_t> pages, bool any_class)
    : groups_(std::move(groups)),
      tree_(any_class),
      any_class_(any_class),
      has_slots_(std::any_of(groups_.begin(), groups_.end(),
                             [](const PageGroup& group) { return group.kind == StateKind::slots; })) {
  CHECK(pages.size() == groups_.size());
  pools_.reserve(pages.size());
  for (const uint32_t count : pages) pools_.emplace_back(count);
}

CachedHistory Cache::empty() {
  CachedHistory sequence;
  for (PagePool& pool : pools_) {
    sequence.tables.emplace_back(pool);
    sequence.slots.push_back({PageTable(pool), PageTable(pool)});
  }
  return sequence;
}

void Cache::use_adapters(CachedHistory& sequence, const std::string& adapters) {
  if (sequence.adapters == adapters) return;
  drop(sequence);
  sequence.adapters = adapters;
}

void Cache::drop(CachedHistory& sequence) {
  for (PageTable& table : sequence.tables) table.clear();
  for (Slots& slots : sequence.slots) {
    slots.now.clear();
    slots.next.clear();
  }
  sequence.cached = sequence.provided = 0;
}

// Whether the tables have all pages that are needed to go on from `position`, a multiple of 64 or `cached`.
bool Cache::covers(const CachedHistory& sequence, uint32_t position) const {
  for (uint32_t g = 0; g < groups(); ++g) {
    const PageTable& table = sequence.tables[g];
    if (is_slots(g)) {
      const bool there = table.end() > table.first() && table.first() * kPagePositions == position;
      if (position > 0 && position != sequence.cached && !there) return false;
    } else if (table.first() > first_seen_page(group(g).window, position)) {
      return false;
    }
  }
  return true;
}

// The last position at or below `bound` from which the sequence's own pages let it go on; 0: the start.
uint32_t Cache::own_cut(const CachedHistory& sequence, uint32_t bound) const {
  const uint32_t cut = last_cut(sequence.history, std::min(sequence.cached, bound));
  if (covers(sequence, cut)) return cut;
  for (uint32_t g = 0; g < groups(); ++g) {
    const PageTable& table = sequence.tables[g];
    const uint32_t kept = table.first() * kPagePositions;
    if (is_slots(g) && table.end() > table.first() && kept < cut && covers(sequence, kept)) return kept;
  }
  return 0;
}

uint32_t Cache::reach(const CachedHistory& sequence, uint32_t bound) {
  const Snapshot* snapshot = tree_.find(sequence.history, bound, sequence.adapters);
  return std::max(own_cut(sequence, bound), snapshot == nullptr ? 0 : snapshot->length);
}

void Cache::resume(CachedHistory& sequence, uint32_t bound) {
  const uint32_t own = own_cut(sequence, bound);
  const Snapshot* snapshot = tree_.find(sequence.history, bound, sequence.adapters);
  if (snapshot != nullptr && snapshot->length > own) {
    sequence.tables = snapshot->tables;
    restored(sequence, snapshot->length);
  } else if (own > 0) {
    settle(sequence);
    for (uint32_t g = 0; g < groups(); ++g)
      if (!is_slots(g)) sequence.tables[g].drop_from(pages_for(own));
    if (own != sequence.cached) restored(sequence, own);
  } else {
    drop(sequence);
  }
}

void Cache::restored(CachedHistory& sequence, uint32_t cached) {
  sequence.cached = sequence.provided = cached;
  for (uint32_t g = 0; g < groups(); ++g) {
    if (!is_slots(g)) continue;
    sequence.slots[g].now = sequence.tables[g];
    sequence.slots[g].next.clear();
  }
}

void Cache::settle(CachedHistory& sequence) const {
  sequence.provided = sequence.cached;
  for (uint32_t g = 0; g < groups(); ++g) {
    if (!is_slots(g)) sequence.tables[g].drop_from(pages_for(sequence.cached));
    sequence.slots[g].next.clear();
  }
}

bool Cache::provide(CachedHistory& sequence, uint32_t end, uint32_t kept, std::vector<PageCopy>& copies) {
  const uint32_t written = sequence.cached / kPagePositions;
  settle(sequence);
  for (uint32_t g = 0; g < groups(); ++g) {
    if (is_slots(g)) {
      if (!provide_slots(sequence.slots[g].next, kept)) return false;
      continue;
    }
    PageTable& table = sequence.tables[g];
    if (sequence.cached % kPagePositions != 0 && table.shared(written)) {
      const auto copy = table.unshare(written);
      if (!copy) return false;
      copies.push_back({g, copy->from, copy->to});
    }
    while (table.end() < pages_for(end))
      if (!table.grow()) return false;
  }
  sequence.provided = end;
  return true;
}

bool Cache::provide_slots(PageTable& next, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    if (!next.grow()) return false;
  return true;
}

void Cache::advance(CachedHistory& sequence, uint32_t end, std::span<const SnapshotMark> marks) {
  const uint32_t begin = sequence.cached, behind = sequence.provided - end;
  sequence.cached = end;
  for (uint32_t g = 0; g < groups(); ++g) {
    if (!is_slots(g)) continue;
    Slots& slots = sequence.slots[g];
    const uint32_t after = slots.next.end() - behind;
    slots.now = slots.next.part(after - 1, after);
    if (behind == 0) slots.next.clear();
    if (end % kCut == 0) sequence.tables[g] = slots.now.moved_to(end / kPagePositions);
  }
  for (const SnapshotMark& mark : marks) {
    const uint32_t at = mark.position;
    if (at > begin && at <= end && (!has_slots_ || at == end)) insert(sequence, mark);
  }
  for (uint32_t g = 0; g < groups(); ++g)
    if (!is_slots(g)) sequence.tables[g].drop_before(first_seen_page(group(g).window, cut_below(end)));
}

uint32_t Cache::whole_blocks(const CachedHistory& sequence) const {
  const uint32_t length = cut_below(sequence.cached);
  return covers(sequence, length) ? length : 0;
}

void Cache::remember(const CachedHistory& sequence) {
  const uint32_t length = whole_blocks(sequence);
  if (length > 0) insert(sequence, {.position = length});
}

std::optional<std::vector<PageTable>> Cache::snapshot_tables(const CachedHistory& sequence, uint32_t length) {
  const Snapshot* snapshot = tree_.find(sequence.history, length, sequence.adapters);
  if (snapshot == nullptr || snapshot->length != length) return std::nullopt;
  return snapshot->tables;
}

void Cache::insert(const CachedHistory& sequence, const SnapshotMark& mark) {
  if (!may_be_cut_before(sequence.history, mark.position)) return;
  Snapshot snapshot{.length = mark.position, .tables = {}, .at_boundary = mark.at_boundary};
  for (uint32_t g = 0; g < groups(); ++g) {
    const PageRange range = pages_at(group(g), mark.position);
    snapshot.tables.push_back(sequence.tables[g].part(range.first, range.end));
  }
  tree_.insert(sequence.history, std::move(snapshot), sequence.adapters);
}

}  // namespace sluice
