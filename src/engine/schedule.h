// Schedule: chooses the rows of the next step. Decode batches and chunks of known tokens take turns, so a running
// answer never waits longer than one chunk, which may be shorter then. A step has one class.
//
// A decode batch has one row of each generating sequence, and rows of its drafts. A chunk has tokens known beforehand:
// prompts, and answers that are computed again. It gives blocks of 64 to sequences round robin, from where the last
// chunk ended, so no prompt waits for another's end. Rows of a sequence end at an absolute multiple of 64 or at the end
// of a run of one class. Pure: sees no pages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/history.h"
#include "graph/step.h"

namespace sluice {

// A sequence with rows [next, end) to compute, all of one class.
struct Pending {
  uint64_t id = 0;  // ascending in the list
  uint32_t next = 0;
  uint32_t end = 0;
  TokenClass token_class = TokenClass::prompt;
  bool generating = false;                     // has one row, from which the next token is sampled
  uint32_t drafts = 0;                         // drafted rows behind `end`; of a generating sequence
  uint32_t adjustments = 0;                    // the most for row `end` - 1, and for each draft
  std::span<const uint32_t> logits_at = {};    // positions from `next` on whose logits are wanted, ascending
  std::span<const HistoryToken> history = {};  // says where the rows may be cut (history.h)
};

// Rows [begin, end) of a pending sequence that go into the step.
struct Portion {
  size_t of = 0;  // index in the list
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t drafts = 0;   // rows behind `end`
  uint32_t logits = 0;   // so many of the first logits_at are given
  bool complete = true;  // false: the same rows are computed again for the rest of their logits
};

struct Batch {
  TokenClass token_class = TokenClass::prompt;
  std::vector<Portion> portions;  // in the order of the list
};

class Schedule {
 public:
  struct Limits {
    uint32_t chunk = 512;      // rows of known tokens, a multiple of 64
    uint32_t beside = ~0u;     // the same while a sequence generates, if that is less
    uint32_t rows = 0;         // of a step at most: a block that may not be cut and is larger than a chunk goes alone
    uint32_t sequences = 1;    // of a step
    uint32_t logits = 1;       // rows of logits_at of a step
    uint32_t adjustments = 0;  // of a step; no single sequence has more
  };
  explicit Schedule(const Limits& limits) : limits_(limits) {}

  // A batch without portions: nothing is pending.
  Batch next(std::span<const Pending> pending);

 private:
  struct ChunkTotals;  // of the chunk that is being filled
  Batch decode_batch(std::span<const Pending> pending);
  void add_drafts(Batch& batch, std::span<const Pending> pending, uint32_t adjustments) const;
  Batch chunk(std::span<const Pending> pending, uint32_t most);
  bool extend(ChunkTotals& totals, uint32_t chunk, const Pending& pending, Portion& portion) const;

  Limits limits_;
  bool decoded_last_ = false;
  uint64_t last_decoded_ = 0;  // the ids behind which the next batch and the next chunk begin
  uint64_t last_filled_ = 0;
};

}  // namespace sluice
