#include "engine/state/page_files.h"

#include <algorithm>
#include <utility>

#include "base/threads.h"

namespace sluice {

// Steps that are under way may end here too.
Status PageFiles::wait(Ticket ticket) {
  for (;;) {
    const std::optional<Completion> completion = runner_->poll();
    if (!completion)
      wait_a_moment();
    else if (completion->ticket == ticket)
      return completion->status;
    else
      engine_.complete(*completion);
  }
}

std::vector<SavedPages> PageFiles::pages(uint32_t begins, uint32_t length) const {
  std::vector<SavedPages> pages;
  pages.reserve(cache_->groups());
  for (uint32_t g = 0; g < cache_->groups(); ++g) {
    PageRange range = pages_at(cache_->group(g), length);
    if (cache_->group(g).kind != StateKind::slots) range.first = std::max(range.first, pages_for(begins));
    pages.push_back({page_bytes_[g], range.first, range.end - range.first});
  }
  return pages;
}

Status PageFiles::write(SaveWriter& writer, const std::vector<PageTable>& tables,
                        const std::vector<SavedPages>& pages) {
  std::vector<std::byte> buffer;  // for pages that do not lie in the host's memory
  for (uint32_t g = 0; g < cache_->groups(); ++g) {
    for (uint32_t i = pages[g].first; i < pages[g].first + pages[g].count; ++i) {
      const PageId page = tables[g].page(i);
      std::vector<std::span<std::byte>> pieces = runner_->page_memory(g, page);
      if (pieces.empty()) {
        buffer.resize(static_cast<size_t>(page_bytes_[g]));
        TRY_STATUS(wait(runner_->read_page(g, page, buffer)));
        pieces = {buffer};
      }
      for (const std::span<std::byte> piece : pieces) TRY_STATUS(writer.write(piece));
    }
  }
  return {};
}

bool PageFiles::take(uint32_t length, CachedHistory& text) {
  for (uint32_t g = 0; g < cache_->groups(); ++g) {
    const PageRange range = pages_at(cache_->group(g), length);
    PageTable& table = text.tables[g];
    table.drop_before(range.first);
    while (table.end() < range.end) {
      if (table.grow() || engine_.reclaim()) continue;
      cache_->drop(text);
      return false;
    }
  }
  cache_->restored(text, length);
  return true;
}

Status PageFiles::read(const SaveReader& reader, const CachedHistory& text) {
  for (uint32_t g = 0; g < cache_->groups(); ++g) {
    const PageTable& table = text.tables[g];
    const SavedPages& pages = reader.saved().groups[g];
    const bool wanted = pages.first + pages.count > table.first() && pages.first < table.end();
    if (wanted) TRY_STATUS(read_group(reader, g, table));
  }
  return {};
}

Status PageFiles::read_group(const SaveReader& reader, uint32_t group, const PageTable& table) {
  const uint32_t first = reader.saved().groups[group].first;
  std::vector<std::byte> buffer;  // for pages that do not lie in the host's memory, or that `table` has no room for
  bool write_buffer = false;      // to the device, once the page is in it
  const auto place = [&](uint32_t index) -> std::vector<std::span<std::byte>> {
    const uint32_t i = first + index;
    const bool wanted = i >= table.first() && i < table.end();
    if (wanted) {
      std::vector<std::span<std::byte>> pieces = runner_->page_memory(group, table.page(i));
      if (!pieces.empty()) return pieces;
    }
    write_buffer = wanted;
    buffer.resize(static_cast<size_t>(page_bytes_[group]));
    return {buffer};
  };
  const auto filled = [&](uint32_t index) -> Status {
    if (!std::exchange(write_buffer, false)) return {};
    return wait(runner_->write_page(group, table.page(first + index), buffer));
  };
  return reader.read_pages(group, place, filled);
}

}  // namespace sluice
