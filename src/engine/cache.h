// The cache of one engine: page pools by group, the prefix tree over them, and what sequences hold.
//
// A sequence keeps the pages that its positions below `cached` need to go on from there; behind a window it keeps what
// the last multiple of 64 still sees, so that a prompt which must go on from there can. Only pages move here: bytes are
// copied by the device, as provide() asks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/history.h"
#include "engine/pages.h"
#include "engine/prefix_tree.h"

namespace sluice {

// What a sequence knows and what of it is computed.
struct CachedHistory {
  History history;
  uint32_t cached = 0;            // rows of these first positions stand in the pages
  std::vector<PageTable> tables;  // by group

  bool holds_pages() const;
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
  uint32_t window(uint32_t group) const { return groups_[group].window; }
  const PagePool& pool(uint32_t group) const { return pools_[group]; }
  bool any_class() const { return any_class_; }
  size_t snapshots() const { return tree_.size(); }

  CachedHistory empty();
  // Makes the sequence go on from the latest cut at or below `bound` that its own pages or a snapshot allow.
  void resume(CachedHistory& sequence, uint32_t bound);
  // Pages of its own for rows [cached, end). False when a pool is short: call again when something was given back.
  bool provide(CachedHistory& sequence, uint32_t end, std::vector<PageCopy>& copies);
  // The rows up to `end` stand: snapshots at those `marks` (multiples of 64) that were passed, pages behind windows go.
  void advance(CachedHistory& sequence, uint32_t end, std::span<const uint32_t> marks);
  // The last multiple of 64 that the sequence could go on from with its own pages; 0: none.
  uint32_t whole_blocks(const CachedHistory& sequence) const;
  // A snapshot there.
  void remember(const CachedHistory& sequence);
  // Gives its pages back; it begins again at the start or at a snapshot.
  void drop(CachedHistory& sequence);

  bool evict() { return tree_.evict(); }
  // After a failed device nothing that was computed is trusted.
  void forget_snapshots() { tree_.clear(); }

 private:
  bool covers(const CachedHistory& sequence, uint32_t position) const;
  void insert(const CachedHistory& sequence, uint32_t length);

  std::vector<PageGroup> groups_;
  std::vector<PagePool> pools_;  // never moved: tables point here
  PrefixTree tree_;
  bool any_class_;
};

}  // namespace sluice
