// PageFiles: moves pages between the device and files, for saved sequences and kept states.
//
// Pages in the host's memory are read and written in place. Other devices copy pages through a buffer; write() and
// read() wait for the copies.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "engine/state/cache.h"
#include "engine/state/save.h"

namespace sluice {

// Reads the pages of one file for the device. read_on() may run on another thread: it uses only the file, its own
// buffers, and pages in the host's memory that nothing else uses yet.
class PageReading {
 public:
  struct Page {
    uint32_t group = 0;
    bool wanted = false;  // false: it is read only for the group's checksum
    PageId to = 0;
    std::vector<std::span<std::byte>> memory{};  // the page's bytes, if they lie in the host's memory
  };
  // A page that has been read and must now be written to the device.
  struct Arrived {
    uint32_t group = 0;
    PageId to = 0;
    std::vector<std::byte> bytes{};
  };
  // `reader` outlives it. `pages`: whole groups in the file's order.
  PageReading(const SaveReader& reader, std::vector<Page> pages) : reader_(&reader), pages_(std::move(pages)) {}

  // Reads until the end, until enough pages for the device have arrived, or until `stop`.
  Status read_on(const std::atomic<bool>& stop);
  bool done() const { return next_ == pages_.size(); }
  std::span<const Arrived> arrived() const { return arrived_; }

 private:
  const SaveReader* reader_;
  std::vector<Page> pages_;
  size_t next_ = 0;
  SaveReader::GroupReading at_;
  std::vector<Arrived> arrived_;
  std::vector<std::byte> unwanted_;
};

class PageFiles {
 public:
  struct Engine {
    std::function<bool()> reclaim;                    // frees pages; false: there are none to free
    std::function<void(const Completion&)> complete;  // takes other tickets that end during a wait
  };
  // Cache and runner outlive it. `page_bytes`: by group.
  PageFiles(Cache& cache, Runner& runner, std::vector<uint64_t> page_bytes, Engine engine)
      : cache_(&cache), runner_(&runner), page_bytes_(std::move(page_bytes)), engine_(std::move(engine)) {}

  // The pages that a sequence needs to go on from `length`, without those that a state of `begins` positions has.
  std::vector<SavedPages> pages(uint32_t begins, uint32_t length) const;
  Status write(SaveWriter& writer, const std::vector<PageTable>& tables, const std::vector<SavedPages>& pages);
  // Gives `text` its own pages for `length` positions; false when running requests hold too many.
  bool take(uint32_t length, CachedHistory& text);
  // Prepares to read the file's pages into the pages of `text`. read() does it and waits.
  PageReading reading(const SaveReader& reader, const CachedHistory& text);
  Status read(const SaveReader& reader, const CachedHistory& text);
  // Begins to write the arrived pages to the device. They must not change until the tickets have ended.
  std::vector<Ticket> write_arrived(const PageReading& reading);

 private:
  Status wait(Ticket ticket);

  Cache* cache_;
  Runner* runner_;
  std::vector<uint64_t> page_bytes_;
  Engine engine_;
};

}  // namespace sluice
