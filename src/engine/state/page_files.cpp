#include "engine/state/page_files.h"

#include <algorithm>
#include <utility>

#include "base/threads.h"

namespace sluice {
namespace {

constexpr size_t kArrivedBytes = size_t{1} << 20;  // of pages on their way from a file to the device

}  // namespace

Status PageReading::read_on(const std::atomic<bool>& stop) {
  arrived_.clear();
  for (size_t bytes = 0; !done() && bytes < kArrivedBytes && !stop; ++next_) {
    const Page& page = pages_[next_];
    if (next_ == 0 || page.group != pages_[next_ - 1].group) at_ = {.group = page.group};
    const auto page_bytes = static_cast<size_t>(reader_->saved().groups[page.group].page_bytes);
    if (!page.memory.empty()) {
      TRY_STATUS(reader_->read_page(at_, page.memory));
      continue;
    }
    if (page.wanted) bytes += page_bytes;
    std::vector<std::byte>& into =
        page.wanted ? arrived_.emplace_back(Arrived{.group = page.group, .to = page.to}).bytes : unwanted_;
    into.resize(page_bytes);
    const std::span<std::byte> whole(into);
    TRY_STATUS(reader_->read_page(at_, {&whole, 1}));
  }
  return {};
}

// A running step may end during the wait, too.
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

PageReading PageFiles::reading(const SaveReader& reader, const CachedHistory& text) {
  std::vector<PageReading::Page> pages;
  for (uint32_t g = 0; g < cache_->groups(); ++g) {
    const PageTable& table = text.tables[g];
    const SavedPages& saved = reader.saved().groups[g];
    const auto wanted = [&](uint32_t i) { return i >= table.first() && i < table.end(); };
    if (saved.first + saved.count <= table.first() || saved.first >= table.end()) continue;
    for (uint32_t i = saved.first; i < saved.first + saved.count; ++i) {
      PageReading::Page& page = pages.emplace_back(PageReading::Page{.group = g, .wanted = wanted(i)});
      if (!page.wanted) continue;
      page.to = table.page(i);
      page.memory = runner_->page_memory(g, page.to);
    }
  }
  return {reader, std::move(pages)};
}

Status PageFiles::read(const SaveReader& reader, const CachedHistory& text) {
  const std::atomic<bool> never = false;
  for (PageReading pages = reading(reader, text); !pages.done();) {
    TRY_STATUS(pages.read_on(never));
    Status status;
    for (const Ticket ticket : write_arrived(pages)) {
      const Status written = wait(ticket);
      if (status) status = written;
    }
    TRY_STATUS(status);
  }
  return {};
}

std::vector<Ticket> PageFiles::write_arrived(const PageReading& reading) {
  std::vector<Ticket> tickets;
  for (const PageReading::Arrived& page : reading.arrived())
    tickets.push_back(runner_->write_page(page.group, page.to, page.bytes));
  return tickets;
}

}  // namespace sluice
