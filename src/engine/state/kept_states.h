// What an engine keeps in the state store and finds there again: prefixes of histories that an earlier run computed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/state/page_files.h"
#include "engine/state/sequence_files.h"
#include "engine/state/state_store.h"

namespace sluice {

class KeptStates {
 public:
  // All outlive it.
  KeptStates(StateStore& store, PageFiles& pages, Cache& cache, ComputedBy by)
      : store_(&store), pages_(&pages), cache_(&cache), by_(std::move(by)) {}

  // Reads the longest kept state that is longer than what the cache has of `text`, and at most `bound` positions, and
  // makes a snapshot of it. Its length, or 0.
  uint32_t recall(const CachedHistory& text, uint32_t bound);
  // Keeps the snapshots of `text` at `boundaries`, and its whole blocks.
  void keep(const CachedHistory& text, const std::vector<uint32_t>& boundaries);

 private:
  const StateIdentity& identity();

  StateStore* store_;
  PageFiles* pages_;
  Cache* cache_;
  ComputedBy by_;
  std::optional<StateIdentity> identity_;  // once somebody asked
};

}  // namespace sluice
