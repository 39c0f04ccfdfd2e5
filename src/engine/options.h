// What an engine is asked for when it is made, and what it counts: the plain values of its public face (engine.h,
// session.h, history.h, sampling.h and this; tools/include_table.txt lists it).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/read_queue.h"
#include "base/result.h"
#include "device/device.h"
#include "format/format.h"

namespace sluice {

class StateStore;

// ---- drafts (draft/draft.h)

enum class DraftKind : uint8_t { none, ngram, mtp };
inline constexpr uint32_t kMaxDraftTokens = 16;

struct DraftOptions {
  DraftKind kind = DraftKind::none;
  uint32_t tokens = 4;  // at most so many a step
  bool always = false;  // also while it does not pay
};

// ---- experts that are read from the model's files as steps choose them (experts/expert_store.h)

// Which expert gives way to another (experts/replacement.h).
enum class ReplacementKind : uint8_t { lru, lfu, next_use };

// How often steps used an expert.
struct HotExpert {
  uint32_t layer = 0, expert = 0;
  uint64_t uses = 0;
  bool operator==(const HotExpert&) const = default;
};

struct ExpertOptions {
  uint64_t bytes = 0;  // of memory for them; 0: they are used where the checkpoint has them
  ReplacementKind replacement = ReplacementKind::next_use;
  std::vector<HotExpert> warm = {};  // hot the last time: read before anybody chooses them
  std::function<Result<std::unique_ptr<ReadQueue>>(const std::vector<std::string>& paths)> open_reads =
      [](const std::vector<std::string>& paths) { return open_read_queue(paths); };
};

// ---- the engine

struct EngineOptions {
  Arithmetic arithmetic = Arithmetic::fast;
  std::optional<Format> cache{};  // of elements of keys, values and latents; none: what the arithmetic takes
  Repack repack = Repack::never;  // where the budget has room for it beside the rest
  uint32_t context = 0;           // positions a sequence may have; 0: the model's, or what fits
  uint32_t sequences = 1;         // at once in a batch
  uint32_t prompt_chunk = 512;    // rows of a prompt step: a multiple of 64
  uint32_t logits_rows = 16;      // rows of logits_at in a step; a block of 64 with more of them is run several times
  uint64_t cache_positions = 0;   // kept for all sequences and snapshots together; 0: context x sequences, or what fits
  StateStore* states = nullptr;   // where requests find what was computed before, if anywhere; outlives the engine
  DraftOptions draft = {};
  ExpertOptions experts = {};
  bool lease_rows = false;  // rows of tables are read from the file as tokens name them, and some are kept
};
// How many of a table lie in memory then.
uint32_t leased_rows(const EngineOptions& options);

// ---- what it counts

struct EngineStats {
  uint64_t prompt_rows = 0, decode_rows = 0, steps = 0;
  uint64_t drafted = 0, accepted = 0;  // tokens
};

struct ExpertStats {
  uint64_t slots = 0, slot_bytes = 0, experts = 0;  // of the model, all layers together
  uint64_t uses = 0, misses = 0;                    // one for all rows of a step that choose the expert
  uint64_t reads = 0, read_bytes = 0;
  uint64_t ahead = 0, ahead_used = 0, ahead_wasted = 0;  // prefetched; then used; evicted without a use
  uint64_t warmed = 0;                                   // prefetched because they were hot in the last run
  double waited_seconds = 0;                             // while no op could be computed
  std::string reader{};
};

// Of rows of tables that are read from the file (experts/row_store.h).
struct RowStats {
  uint64_t uses = 0, misses = 0;  // a row for each token of a step
  uint64_t read_bytes = 0;
};

}  // namespace sluice
