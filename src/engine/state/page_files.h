// Pages between the device and files: what saved sequences and kept states are made of.
//
// Devices whose pages lie in the host's memory are read and written there; others copy a page through a buffer, and
// these functions wait for that.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "engine/state/cache.h"
#include "engine/state/save.h"

namespace sluice {

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
  // Reads the file's pages for which `text` has room.
  Status read(const SaveReader& reader, const CachedHistory& text);

 private:
  Status wait(Ticket ticket);
  Status read_group(const SaveReader& reader, uint32_t group, const PageTable& table);

  Cache* cache_;
  Runner* runner_;
  std::vector<uint64_t> page_bytes_;
  Engine engine_;
};

}  // namespace sluice
