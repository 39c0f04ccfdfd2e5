// Pages to files and back, and which states the store keeps.
#include <algorithm>
#include <set>
#include <utility>

#include "base/threads.h"
#include "engine/engine_impl.h"

namespace sluice {
// Steps under way end here too.
Status EngineImpl::wait(Ticket ticket) {
  for (;;) {
    const std::optional<Completion> completion = placed_.runner->poll();
    if (!completion)
      wait_a_moment();
    else if (completion->ticket == ticket)
      return completion->status;
    else
      complete(*completion);
  }
}

// The pages that a sequence of `length` positions needs to go on, less those that one of `begins` has.
std::vector<SavedPages> EngineImpl::saved_pages(uint32_t begins, uint32_t length) const {
  std::vector<SavedPages> pages;
  pages.reserve(cache_.groups());
  for (uint32_t g = 0; g < cache_.groups(); ++g) {
    PageRange range = pages_at(cache_.group(g), length);
    if (cache_.group(g).kind != StateKind::slots) range.first = std::max(range.first, pages_for(begins));
    pages.push_back({placed_.page_bytes[g], range.first, range.end - range.first});
  }
  return pages;
}

Status EngineImpl::write_pages(SaveWriter& writer, const std::vector<PageTable>& tables,
                               const std::vector<SavedPages>& pages) {
  std::vector<std::byte> buffer;  // for pages that lie elsewhere
  for (uint32_t g = 0; g < cache_.groups(); ++g) {
    for (uint32_t i = pages[g].first; i < pages[g].first + pages[g].count; ++i) {
      const PageId page = tables[g].page(i);
      std::vector<std::span<std::byte>> pieces = placed_.runner->page_memory(g, page);
      if (pieces.empty()) {
        buffer.resize(static_cast<size_t>(placed_.page_bytes[g]));
        TRY_STATUS(wait(placed_.runner->read_page(g, page, buffer)));
        pieces = {buffer};
      }
      for (const std::span<std::byte> piece : pieces) TRY_STATUS(writer.write(piece));
    }
  }
  return {};
}

// False when running requests hold too many.
bool EngineImpl::take_pages(uint32_t length, CachedHistory& text) {
  for (uint32_t g = 0; g < cache_.groups(); ++g) {
    const PageRange range = pages_at(cache_.group(g), length);
    PageTable& table = text.tables[g];
    table.drop_before(range.first);
    while (table.end() < range.end) {
      if (table.grow() || admission_.reclaim()) continue;
      cache_.drop(text);
      return false;
    }
  }
  cache_.restored(text, length);
  return true;
}

// Those of the file that `text` has room for.
Status EngineImpl::read_pages(const SaveReader& reader, const CachedHistory& text) {
  std::vector<std::byte> buffer;  // for pages that lie elsewhere, or that nobody wants
  for (uint32_t g = 0; g < cache_.groups(); ++g) {
    const PageTable& table = text.tables[g];
    const SavedPages& pages = reader.saved().groups[g];
    if (pages.first + pages.count <= table.first() || pages.first >= table.end()) continue;
    bool elsewhere = false;  // the page at hand does not lie in the host's memory
    const auto place = [&](uint32_t index) -> std::vector<std::span<std::byte>> {
      const uint32_t i = pages.first + index;
      const bool wanted = i >= table.first() && i < table.end();
      if (wanted) {
        std::vector<std::span<std::byte>> pieces = placed_.runner->page_memory(g, table.page(i));
        if (!pieces.empty()) return pieces;
      }
      elsewhere = wanted;
      buffer.resize(static_cast<size_t>(placed_.page_bytes[g]));
      return {buffer};
    };
    const auto filled = [&](uint32_t index) -> Status {
      if (!std::exchange(elsewhere, false)) return {};
      return wait(placed_.runner->write_page(g, table.page(pages.first + index), buffer));
    };
    TRY_STATUS(reader.read_pages(g, place, filled));
  }
  return {};
}

const StateIdentity& EngineImpl::identity() {
  if (!identity_) {
    identity_ = {.digest = digest(),
                 .numerics_id = placed_.numerics_id,
                 .any_class = cache_.any_class(),
                 .pages = [this](uint32_t begins, uint32_t length) { return saved_pages(begins, length); }};
  }
  return *identity_;
}

uint32_t EngineImpl::recall(const CachedHistory& text, uint32_t bound) {
  const uint32_t least = cache_.reach(text, bound);
  for (uint32_t most = cut_below(bound); most > least;) {
    const StoredState found = options_.states->find(identity(), text.history, least, most);
    if (found.length == 0) return 0;
    CachedHistory restored = cache_.empty();
    restored.history = text.history;
    if (!take_pages(found.length, restored)) return 0;
    const auto read = [&](const StoredState::Part& part) {
      const Status status = read_pages(part.reader, restored);
      if (!status) options_.states->set_aside(part.path, status.error());
      return status.ok();
    };
    if (std::all_of(found.parts.begin(), found.parts.end(), read)) {
      cache_.remember(restored);
      return found.length;
    }
    most = found.length - kCut;
  }
  return 0;
}

void EngineImpl::keep_state(SequenceId sequence) {
  const Result<OpenSequence*> open = idle_sequence(sequence);
  if (options_.states == nullptr || !options_.states->keeps() || !open) return;
  const CachedHistory& text = (*open)->text;
  std::set<uint32_t> lengths((*open)->boundaries.begin(), (*open)->boundaries.end());
  lengths.insert(cache_.whole_blocks(text));
  (*open)->boundaries.clear();
  for (const uint32_t length : lengths) {
    const std::optional<std::vector<PageTable>> tables = cache_.snapshot_tables(text, length);
    if (!tables) continue;
    options_.states->keep(identity(), text.history, length, [&](SaveWriter& writer, uint32_t begins) {
      return write_pages(writer, *tables, saved_pages(begins, length));
    });
  }
}

}  // namespace sluice
