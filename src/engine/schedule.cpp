#include "engine/schedule.h"

#include <algorithm>

#include "engine/history.h"

namespace sluice {
namespace {

// Indices of the sequences that `wanted` accepts, in a ring that begins behind the id `last`.
template <class Wanted>
std::vector<size_t> ring(std::span<const Pending> pending, uint64_t last, const Wanted& wanted) {
  std::vector<size_t> order;
  for (size_t i = 0; i < pending.size(); ++i)
    if (wanted(pending[i])) order.push_back(i);
  const auto start = std::find_if(order.begin(), order.end(), [&](size_t i) { return pending[i].id > last; });
  std::rotate(order.begin(), start, order.end());
  return order;
}

uint32_t logits_below(const Pending& pending, uint32_t end) {
  const auto& at = pending.logits_at;
  return static_cast<uint32_t>(std::lower_bound(at.begin(), at.end(), end) - at.begin());
}

}  // namespace

struct Schedule::ChunkTotals {
  uint32_t rows = 0;
  uint32_t logits = 0;
  uint32_t adjustments = 0;
};

Batch Schedule::next(std::span<const Pending> pending) {
  const bool decoding = std::any_of(pending.begin(), pending.end(), [](const Pending& one) { return one.generating; });
  const bool filling = std::any_of(pending.begin(), pending.end(), [](const Pending& one) { return !one.generating; });
  decoded_last_ = decoding && !(filling && decoded_last_);
  Batch batch = decoded_last_ ? decode_batch(pending)
                              : chunk(pending, decoding ? std::min(limits_.chunk, limits_.beside) : limits_.chunk);
  std::sort(batch.portions.begin(), batch.portions.end(),
            [](const Portion& a, const Portion& b) { return a.of < b.of; });
  return batch;
}

Batch Schedule::decode_batch(std::span<const Pending> pending) {
  Batch batch{TokenClass::decode, {}};
  uint32_t adjustments = 0;
  for (const size_t i : ring(pending, last_decoded_, [](const Pending& one) { return one.generating; })) {
    if (batch.portions.size() == limits_.sequences) break;
    if (adjustments + pending[i].adjustments > limits_.adjustments) break;
    adjustments += pending[i].adjustments;
    batch.portions.push_back({.of = i, .begin = pending[i].next, .end = pending[i].end});
    last_decoded_ = pending[i].id;
  }
  add_drafts(batch, pending, limits_.adjustments - adjustments);
  return batch;
}

// Adds as many drafts as the remaining adjustments allow.
void Schedule::add_drafts(Batch& batch, std::span<const Pending> pending, uint32_t adjustments) const {
  for (Portion& portion : batch.portions) {
    const Pending& of = pending[portion.of];
    portion.drafts = of.adjustments == 0 ? of.drafts : std::min(of.drafts, adjustments / of.adjustments);
    adjustments -= portion.drafts * of.adjustments;
  }
}

// `most`: rows.
Batch Schedule::chunk(std::span<const Pending> pending, uint32_t most) {
  Batch batch;
  std::vector<size_t> order = ring(pending, last_filled_, [](const Pending& one) { return !one.generating; });
  if (order.empty()) return batch;
  batch.token_class = pending[order.front()].token_class;
  std::erase_if(order, [&](size_t i) { return pending[i].token_class != batch.token_class; });
  order.resize(std::min<size_t>(order.size(), limits_.sequences));

  ChunkTotals totals;
  for (const size_t i : order) batch.portions.push_back({.of = i, .begin = pending[i].next, .end = pending[i].next});
  for (bool grown = true; grown;) {
    grown = false;
    for (Portion& portion : batch.portions) grown |= extend(totals, most, pending[portion.of], portion);
  }
  std::erase_if(batch.portions, [](const Portion& portion) { return portion.begin == portion.end; });
  last_filled_ = pending[batch.portions.back().of].id;
  return batch;
}

// Adds one more block of 64 if the step has room for its rows, logits and adjustments. `chunk`: rows of the step.
bool Schedule::extend(ChunkTotals& totals, uint32_t chunk, const Pending& pending, Portion& portion) const {
  if (portion.end == pending.end || !portion.complete) return false;
  const uint32_t end = block_end(pending.history, portion.end, pending.end);
  const uint32_t rows = end - portion.end;
  const uint32_t logits = logits_below(pending, end) - portion.logits;
  const uint32_t adjustments = end == pending.end ? pending.adjustments : 0;
  const uint32_t most = totals.rows == 0 ? std::max(chunk, limits_.rows) : chunk;
  if (totals.rows + rows > most || totals.adjustments + adjustments > limits_.adjustments) return false;
  const uint32_t logits_left = limits_.logits - totals.logits;
  // A block with too many logits waits. As the first block of a step it is taken anyway, and computed again for the
  // rest.
  if (logits > logits_left && totals.rows > 0) return false;
  portion.complete = logits <= logits_left;
  portion.end = end;
  portion.logits += std::min(logits, logits_left);
  totals.rows += rows;
  totals.logits += std::min(logits, logits_left);
  totals.adjustments += adjustments;
  return true;
}

}  // namespace sluice
