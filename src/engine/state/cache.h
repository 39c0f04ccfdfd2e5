// Cache: the page pools of one engine by group, the prefix tree over them, and the pages that sequences hold.
//
// A sequence keeps the pages that it needs to go on from `cached`. Of a windowed layer it keeps the pages that the last
// multiple of 64 sees, because a prompt may have to go on from there. Of a recurrent layer it keeps two slots: the
// state at `cached` and the state at the last multiple of 64. Each step writes a new slot, so a rejected step leaves no
// trace and a snapshot needs no copy. Drafted rows have a slot each. This class only assigns pages; the device copies
// bytes, as provide() asks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/coordinates.h"
#include "engine/history.h"
#include "engine/state/pages.h"
#include "engine/state/prefix_tree.h"

namespace sluice {

// The slots that a sequence may hold in a group: one in its table, Slots::now and Slots::next; each draft adds one.
inline constexpr uint32_t kSlotsOfSequence = 3;
struct Slots {
  PageTable now;   // the state after `cached` positions; empty: nothing is computed, or the group has pages
  PageTable next;  // written by the last rows of the running step, a slot each
};

// A sequence's history and its computed part.
struct CachedHistory {
  History history;
  std::string adapters;           // AdapterSlots::name_of() those that its rows are computed with; "": none
  GridRuns grids;                 // of the history's beginning; truncate() keeps them right
  uint32_t cached = 0;            // the pages hold the rows of these first positions
  uint32_t provided = 0;          // the pages have room for these first positions
  std::vector<PageTable> tables;  // by group; of a slot group, the slot at the last multiple of 64
  std::vector<Slots> slots;       // by group

  bool holds_pages() const;
  // The history becomes its first `length` elements.
  void truncate(size_t length);
};

// The position at which a step must leave a snapshot: a multiple of 64.
struct SnapshotMark {
  uint32_t position = 0;
  bool at_boundary = true;  // Snapshot::at_boundary
};

struct PageCopy {
  uint32_t group = 0;
  PageId from = 0, to = 0;
};

class Cache {
 public:
  // `pages` by group. any_class: classes are bit-equal.
  Cache(std::vector<PageGroup> groups, std::span<const uint32_t> pages, bool any_class);

  uint32_t groups() const { return static_cast<uint32_t>(groups_.size()); }
  const PageGroup& group(uint32_t group) const { return groups_[group]; }
  // Steps must then end at the positions of snapshots.
  bool has_slots() const { return has_slots_; }
  const PagePool& pool(uint32_t group) const { return pools_[group]; }
  bool any_class() const { return any_class_; }
  size_t snapshots() const { return tree_.size(); }

  CachedHistory empty();
  // Sets `cached` to the last cut at or below `bound` that the sequence's own pages or a snapshot allow.
  void resume(CachedHistory& sequence, uint32_t bound);
  // The position that resume() would set.
  uint32_t reach(const CachedHistory& sequence, uint32_t bound);
  // Gives the sequence unshared pages for rows [cached, end), and a slot for each of the last `kept` rows. False when a
  // pool is short: free pages and call again.
  bool provide(CachedHistory& sequence, uint32_t end, uint32_t kept, std::vector<PageCopy>& copies);
  // The rows up to `end` stand. A slot must have been provided for the state after `end`. Inserts snapshots at the
  // `marks` that were passed, and frees pages behind windows.
  void advance(CachedHistory& sequence, uint32_t end, std::span<const SnapshotMark> marks);
  // The sequence's tables were filled from elsewhere, for `cached` positions, a multiple of 64.
  void restored(CachedHistory& sequence, uint32_t cached);
  // The last multiple of 64 from which the sequence's own pages let it go on; 0: none.
  uint32_t whole_blocks(const CachedHistory& sequence) const;
  // Inserts a snapshot at whole_blocks().
  void remember(const CachedHistory& sequence);
  // The pages of the snapshot at `length`, a multiple of 64, if there is one.
  std::optional<std::vector<PageTable>> snapshot_tables(const CachedHistory& sequence, uint32_t length);
  // Frees the pages and slots provided behind `cached`: their rows do not stand.
  void settle(CachedHistory& sequence) const;
  // The sequence is computed with these adapters from now on: rows that others computed are dropped.
  void use_adapters(CachedHistory& sequence, const std::string& adapters);
  // Frees all pages. The sequence goes on from its start or from a snapshot.
  void drop(CachedHistory& sequence);

  bool evict() { return tree_.evict(); }
  // For a device that has failed: nothing that it computed is trusted.
  void forget_snapshots() { tree_.clear(); }

 private:
  bool is_slots(uint32_t group) const { return groups_[group].kind == StateKind::slots; }
  bool covers(const CachedHistory& sequence, uint32_t position) const;
  uint32_t own_cut(const CachedHistory& sequence, uint32_t bound) const;
  static bool provide_slots(PageTable& next, uint32_t count);
  void insert(const CachedHistory& sequence, const SnapshotMark& mark);

  std::vector<PageGroup> groups_;
  std::vector<PagePool> pools_;  // never moved: tables point here
  PrefixTree tree_;
  bool any_class_;
  bool has_slots_;
};

}  // namespace sluice
