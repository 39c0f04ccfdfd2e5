// An engine's options and its counts: plain values of the engine's public face (tools/include_table.txt lists its
// headers).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/files/read_queue.h"
#include "base/result.h"
#include "device/device.h"
#include "format/format.h"
#include "model/adapters/adapter.h"

namespace sluice {

class StateStore;

// ---- drafts (draft/draft.h)

// both: n-grams where they are right more often than the head. automatic: n-grams for at most kMostThatDraft sequences,
// else none. Where states are kept in slots, each guess takes a slot more: automatic drafts then guess at most four
// tokens, and none where memory is short (plan/layout.h, plan_text()).
enum class DraftKind : uint8_t { none, ngram, mtp, both, automatic };
inline constexpr uint32_t kMaxDraftTokens = 16;
inline constexpr uint32_t kMostThatDraft = 4;  // sequences, if drafting is automatic

struct DraftOptions {
  DraftKind kind = DraftKind::none;
  uint32_t tokens = 4;              // the most a step
  bool always = false;              // drafts even while drafting does not pay
  bool head_may_lack_room = false;  // both become n-grams where memory is too small for the head
  // For measuring answers that are recorded (Request::recorded): a head's guess is made the recorded token with this
  // chance, whatever the head guessed. 0: guesses stay.
  float right_share = 0.0f;

  bool has_ngrams() const {
    return kind == DraftKind::ngram || kind == DraftKind::both || kind == DraftKind::automatic;
  }
  bool has_head() const { return kind == DraftKind::mtp || kind == DraftKind::both; }
};

// ---- streamed experts: read from the model's files as steps choose them (experts/expert_store.h)

// Which expert is evicted for another one (experts/replacement.h).
enum class ReplacementKind : uint8_t { lru, lfu, next_use };

// How often steps used an expert.
struct HotExpert {
  uint32_t layer = 0, expert = 0;
  uint64_t uses = 0;
  bool operator==(const HotExpert&) const = default;
};

struct ExpertOptions {
  uint64_t bytes = 0;  // of memory for experts; 0: experts are not streamed
  ReplacementKind replacement = ReplacementKind::next_use;
  std::vector<HotExpert> warm = {};  // hot in the last run: read before a step chooses them
  std::function<Result<std::unique_ptr<ReadQueue>>(const std::vector<std::string>& paths)> open_reads =
      [](const std::vector<std::string>& paths) { return open_read_queue(paths); };
};

// ---- adapters (adapters/adapter_slots.h)

// Slots for sums of adapters that requests name while the model runs, besides those of EngineOptions::adapters.
struct AdapterRoom {
  uint32_t slots = 0;
  uint32_t rank = 16;                  // the highest of a sum; EngineOptions::adapters may raise it
  std::vector<std::string> weights{};  // that they may change, by canonical name; empty: every product
};

// ---- the engine

struct EngineOptions {
  Arithmetic arithmetic = Arithmetic::fast;
  std::optional<Format> cache{};  // of elements of keys, values and latents; none: the arithmetic's own
  Repack repack = Repack::never;  // falls back to `never` if the budget has no room for packed weights
  uint32_t context = 0;           // positions a sequence may have; 0: the model's, or as many as fit
  uint32_t sequences = 1;         // in a batch
  // Rows of a prompt step: a multiple of 64. While answers are generated a step has at most kUsualPromptRows. A larger
  // number is halved, down to kUsualPromptRows, until the device and the budget have room.
  uint32_t prompt_chunk = kUsualPromptRows;
  uint32_t logits_rows = 16;     // rows of logits_at in a step; a block of 64 with more of them is run several times
  uint64_t cache_positions = 0;  // of all sequences and snapshots together; 0: context x sequences, or as many as fit
  StateStore* states = nullptr;  // states of earlier runs, or null; outlives the engine
  DraftOptions draft = {};
  // What towers and their pictures and sounds will take (plan/tower_room.h): the sizes above leave room for it.
  std::vector<MemoryLine> media = {};
  bool media_may_lack_room = false;  // a model is opened even where there is no room for `media`
  ExpertOptions experts = {};
  std::vector<AdapterSum> adapters = {};  // that lie in slots from the start
  AdapterRoom adapter_room = {};
  bool lease_rows = false;  // table rows are read from the file when tokens name them; recently used ones are kept
};

// ---- counts

struct EngineStats {
  uint64_t prompt_rows = 0, decode_rows = 0, steps = 0;
  uint64_t drafted = 0, accepted = 0;  // tokens
  uint64_t held_pages = 0;             // of the cache, that open sequences hold now; all groups together
};

struct ExpertStats {
  uint64_t slots = 0, slot_bytes = 0, experts = 0;  // of the model, all layers together
  uint64_t uses = 0, misses = 0;                    // a step counts once for each expert that its rows choose
  uint64_t reads = 0, read_bytes = 0;
  uint64_t ahead = 0, ahead_used = 0, ahead_wasted = 0;  // prefetched; then used; evicted without a use
  uint64_t warmed = 0;                                   // prefetched because they were hot in the last run
  double waited_seconds = 0;                             // in which no op could be computed
  std::string reader{};
};

// Of leased table rows (experts/row_store.h).
struct RowStats {
  uint64_t uses = 0, misses = 0;  // each token of a step uses one row of each table
  uint64_t read_bytes = 0;
};

}  // namespace sluice
