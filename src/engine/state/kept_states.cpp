#include "engine/state/kept_states.h"

#include <algorithm>
#include <set>

namespace sluice {

const StateIdentity& KeptStates::identity() {
  if (!identity_) {
    identity_ = {.digest = by_.digest(),
                 .numerics_id = by_.numerics_id,
                 .any_class = cache_->any_class(),
                 .pages = [this](uint32_t begins, uint32_t length) { return pages_->pages(begins, length); }};
  }
  return *identity_;
}

uint32_t KeptStates::recall(const CachedHistory& text, uint32_t bound) {
  const uint32_t least = cache_->reach(text, bound);
  for (uint32_t most = cut_below(bound); most > least;) {
    const StoredState found = store_->find(identity(), text.history, least, most);
    if (found.length == 0) return 0;
    CachedHistory restored = cache_->empty();
    restored.history = text.history;
    if (!pages_->take(found.length, restored)) return 0;
    const auto read = [&](const StoredState::Part& part) {
      const Status status = pages_->read(part.reader, restored);
      if (!status) store_->set_aside(part.path, status.error());
      return status.ok();
    };
    if (std::all_of(found.parts.begin(), found.parts.end(), read)) {
      cache_->remember(restored);
      return found.length;
    }
    most = found.length - kCut;
  }
  return 0;
}

void KeptStates::keep(const CachedHistory& text, const std::vector<uint32_t>& boundaries) {
  if (!store_->keeps()) return;
  std::set<uint32_t> lengths(boundaries.begin(), boundaries.end());
  lengths.insert(cache_->whole_blocks(text));
  for (const uint32_t length : lengths) {
    const std::optional<std::vector<PageTable>> tables = cache_->snapshot_tables(text, length);
    if (!tables) continue;
    store_->keep(identity(), text.history, length, [&](SaveWriter& writer, uint32_t begins) {
      return pages_->write(writer, *tables, pages_->pages(begins, length));
    });
  }
}

}  // namespace sluice
