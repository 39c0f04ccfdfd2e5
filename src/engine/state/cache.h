// The cache of one engine: page pools by group, the prefix tree over them, and what sequences hold.
//
// A sequence keeps the pages that its positions below `cached` need to go on from there; behind a window it keeps what
// the last multiple of 64 still sees, so that a prompt which must go on from there can. Of a recurrent state it keeps
// the slots at `cached` and at the last multiple of 64, and each step writes into new ones: what a step left is gone
// when its rows do not stand, and a snapshot is a reference. Rows that may stand one by one (drafts) have a slot each.
// Only pages move here: bytes are copied by the device, as provide() asks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/history.h"
#include "engine/state/pages.h"
#include "engine/state/prefix_tree.h"

namespace sluice {

// What a sequence may hold in a slot group: that of its table, and two more, and one for each draft.
inline constexpr uint32_t kSlotsOfSequence = 3;
struct Slots {
  PageTable now;   // the state after `cached` positions; none: nothing is computed, or the group has pages
  PageTable next;  // what the last rows of the step under way write, a slot each
};

// What a sequence knows and what of it is computed.
struct CachedHistory {
  History history;
  uint32_t cached = 0;            // rows of these first positions stand in the pages
  uint32_t provided = 0;          // the end of the rows that the pages have room for
  std::vector<PageTable> tables;  // by group; of a slot group, the slot at the last multiple of 64 that was passed
  std::vector<Slots> slots;       // by group

  bool holds_pages() const;
};

// Where a snapshot is to stand: a multiple of 64.
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
  // Whether steps must end where snapshots are to stand.
  bool has_slots() const { return has_slots_; }
  const PagePool& pool(uint32_t group) const { return pools_[group]; }
  bool any_class() const { return any_class_; }
  size_t snapshots() const { return tree_.size(); }

  CachedHistory empty();
  // Makes the sequence go on from the latest cut at or below `bound` that its own pages or a snapshot allow.
  void resume(CachedHistory& sequence, uint32_t bound);
  // Where resume() would make it go on.
  uint32_t reach(const CachedHistory& sequence, uint32_t bound);
  // Pages of its own for rows [cached, end), and a slot for each of the last `kept` of them. False when a pool is
  // short: call again when something was given back.
  bool provide(CachedHistory& sequence, uint32_t end, uint32_t kept, std::vector<PageCopy>& copies);
  // The rows up to `end`, where they were all provided or its state was kept, stand: snapshots at those `marks`
  // that were passed, pages behind windows go.
  void advance(CachedHistory& sequence, uint32_t end, std::span<const SnapshotMark> marks);
  // An own table of pages for `cached` positions, a multiple of 64, has been filled from elsewhere.
  void restored(CachedHistory& sequence, uint32_t cached);
  // The last multiple of 64 that the sequence could go on from with its own pages; 0: none.
  uint32_t whole_blocks(const CachedHistory& sequence) const;
  // A snapshot there.
  void remember(const CachedHistory& sequence);
  // The pages to go on from `length`, a multiple of 64, those of a snapshot; nothing without one.
  std::optional<std::vector<PageTable>> snapshot_tables(const CachedHistory& sequence, uint32_t length);
  // What was provided behind `cached` does not stand, and is given back.
  void settle(CachedHistory& sequence) const;
  // Gives its pages back; it begins again at the start or at a snapshot.
  void drop(CachedHistory& sequence);

  bool evict() { return tree_.evict(); }
  // After a failed device nothing that was computed is trusted.
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
