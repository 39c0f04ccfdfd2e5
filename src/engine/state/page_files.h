// Pages between the device and files: what saved sequences and kept states are made of.
//
// Devices whose pages lie in the host's memory are read and written there; others copy a page through a buffer, and
// these functions wait for that.
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

// The pages of one file on their way to the device. read_on() may run on another thread: it touches the file, pages of
// the host's memory that nobody else uses yet, and buffers of its own.
class PageReading {
 public:
  struct Page {
    uint32_t group = 0;
    bool wanted = false;  // else it is read for the group's checksum alone
    PageId to = 0;
    std::vector<std::span<std::byte>> memory{};  // of the page, where it lies in the host's
  };
  // A page that has been read and that the device is to be given.
  struct Arrived {
    uint32_t group = 0;
    PageId to = 0;
    std::vector<std::byte> bytes{};
  };
  // `reader` outlives it; `pages` are in the file's order, whole groups.
  PageReading(const SaveReader& reader, std::vector<Page> pages) : reader_(&reader), pages_(std::move(pages)) {}

  // Reads to the end, or until some pages have arrived, or until `stop`.
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
    std::function<bool()> reclaim;                    // gives pages back; false: there are none to give
    std::function<void(const Completion&)> complete;  // takes other tickets, which may end while one is waited for
  };
  // Cache and runner outlive it. `page_bytes`: by group.
  PageFiles(Cache& cache, Runner& runner, std::vector<uint64_t> page_bytes, Engine engine)
      : cache_(&cache), runner_(&runner), page_bytes_(std::move(page_bytes)), engine_(std::move(engine)) {}

  // The pages that a sequence of `length` positions needs to go on, less those that one of `begins` has.
  std::vector<SavedPages> pages(uint32_t begins, uint32_t length) const;
  Status write(SaveWriter& writer, const std::vector<PageTable>& tables, const std::vector<SavedPages>& pages);
  // Gives `text` pages of its own for `length` positions; false when running requests hold too many.
  bool take(uint32_t length, CachedHistory& text);
  // The file's pages for which `text` has room; read() waits until they are there.
  PageReading reading(const SaveReader& reader, const CachedHistory& text);
  Status read(const SaveReader& reader, const CachedHistory& text);
  // Gives the device the pages that have arrived, which stay untouched until the tickets have ended.
  std::vector<Ticket> write_arrived(const PageReading& reading);

 private:
  Status wait(Ticket ticket);

  Cache* cache_;
  Runner* runner_;
  std::vector<uint64_t> page_bytes_;
  Engine engine_;
};

}  // namespace sluice
