// Pages of the cache, with counted references. A page keeps 64 positions of every state of one group; the device has
// its bytes. Sequences and snapshots hold pages through PageTables. A copy of a table shares its pages, and a shared
// page is copied before it is written.
//
// A page of a slot group is a slot: the whole recurrent state after some position. A slot that stands is never written
// again. In a PageTable, the slot after a multiple of 64 has the index position / 64.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "graph/program.h"

namespace sluice {

using PageId = uint32_t;

// All pages of one group.
class PagePool {
 public:
  explicit PagePool(uint32_t pages);

  uint32_t size() const { return static_cast<uint32_t>(references_.size()); }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t references(PageId page) const { return references_[page]; }

  std::optional<PageId> take();  // with one reference
  void share(PageId page) { ++references_[page]; }
  void release(PageId page);

 private:
  std::vector<uint32_t> references_;
  std::vector<PageId> free_;
};

// Pages of the positions [64 first, 64 end). The table has a reference to each. The pool outlives it.
class PageTable {
 public:
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  PageTable(const PageTable& other);
  PageTable(PageTable&& other) noexcept
      : pool_(other.pool_), first_(other.first_), pages_(std::exchange(other.pages_, {})) {}
  PageTable& operator=(PageTable other) noexcept;
  ~PageTable() { clear(); }

  uint32_t first() const { return first_; }
  uint32_t end() const { return first_ + static_cast<uint32_t>(pages_.size()); }
  PageId page(uint32_t index) const { return pages_[index - first_]; }
  bool shared(uint32_t index) const { return pool_->references(page(index)) > 1; }

  // Adds a page at the end; false when the pool has none.
  bool grow();
  // Replaces a shared page by an unshared one. The caller must copy the bytes. Nothing when the pool has no page.
  struct Copy {
    PageId from = 0, to = 0;
  };
  std::optional<Copy> unshare(uint32_t index);

  void drop_before(uint32_t index);  // a table that becomes empty begins at `index`
  void drop_from(uint32_t index);
  void clear();
  PageTable part(uint32_t first, uint32_t end) const;
  PageTable moved_to(uint32_t first) const;  // the same pages under other indices

 private:
  PagePool* pool_;
  uint32_t first_ = 0;
  std::vector<PageId> pages_;
};

constexpr uint32_t pages_for(uint64_t positions) {
  return static_cast<uint32_t>((positions + kPagePositions - 1) / kPagePositions);
}

// The first page that a row at `position` still sees.
constexpr uint32_t first_seen_page(uint32_t window, uint32_t position) {
  return window == 0 || position < window ? 0 : (position - window + 1) / kPagePositions;
}

// Pages [first, end) of a group that a sequence needs to go on from `length`, a multiple of 64.
struct PageRange {
  uint32_t first = 0, end = 0;
};
constexpr PageRange pages_at(const PageGroup& group, uint32_t length) {
  const uint32_t end = pages_for(length);
  if (group.kind == StateKind::slots) return {end, length == 0 ? end : end + 1};
  const uint32_t seen = first_seen_page(group.window, length);
  return {seen < end ? seen : end, end};
}

}  // namespace sluice
