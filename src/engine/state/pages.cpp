#include "engine/state/pages.h"

#include <algorithm>

namespace sluice {

PagePool::PagePool(uint32_t pages) : references_(pages, 0), free_(pages) {
  // take() takes from the back: low pages come first.
  for (uint32_t i = 0; i < pages; ++i) free_[i] = pages - 1 - i;
}

std::optional<PageId> PagePool::take() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  references_[page] = 1;
  return page;
}

void PagePool::release(PageId page) {
  CHECK(references_[page] > 0);
  if (--references_[page] == 0) free_.push_back(page);
}

PageTable::PageTable(const PageTable& other) : pool_(other.pool_), first_(other.first_), pages_(other.pages_) {
  for (const PageId page : pages_) pool_->share(page);
}

PageTable& PageTable::operator=(PageTable other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(first_, other.first_);
  std::swap(pages_, other.pages_);
  return *this;
}

bool PageTable::grow() {
  const std::optional<PageId> page = pool_->take();
  if (page) pages_.push_back(*page);
  return page.has_value();
}

std::optional<PageTable::Copy> PageTable::unshare(uint32_t index) {
  const std::optional<PageId> own = pool_->take();
  if (!own) return std::nullopt;
  PageId& place = pages_[index - first_];
  const Copy copy{place, *own};
  pool_->release(place);
  place = *own;
  return copy;
}

void PageTable::drop_before(uint32_t index) {
  const uint32_t kept_from = std::clamp(index, first_, end());
  for (uint32_t i = first_; i < kept_from; ++i) pool_->release(page(i));
  pages_.erase(pages_.begin(), pages_.begin() + (kept_from - first_));
  first_ = pages_.empty() ? std::max(index, first_) : kept_from;
}

void PageTable::drop_from(uint32_t index) {
  while (end() > index && !pages_.empty()) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

void PageTable::clear() {
  for (const PageId page : pages_) pool_->release(page);
  pages_.clear();
  first_ = 0;
}

PageTable PageTable::part(uint32_t first, uint32_t end) const {
  CHECK(first >= first_ && end <= this->end() && first <= end);
  PageTable part(*pool_);
  part.first_ = first;
  part.pages_.assign(pages_.begin() + (first - first_), pages_.begin() + (end - first_));
  for (const PageId page : part.pages_) pool_->share(page);
  return part;
}

PageTable PageTable::moved_to(uint32_t first) const {
  PageTable moved(*this);
  moved.first_ = first;
  return moved;
}

}  // namespace sluice
