#include "engine/jobs.h"

#include <algorithm>
#include <utility>

namespace sluice {

namespace {

uint32_t next_mark(const Job& job, uint32_t position) {
  const auto mark =
      std::find_if(job.marks.begin(), job.marks.end(), [&](const SnapshotMark& m) { return m.position > position; });
  return mark == job.marks.end() ? UINT32_MAX : mark->position;
}

}  // namespace

Result<OpenSequence*> Board::idle_sequence(SequenceId id) {
  const auto found = sequences.find(id);
  if (found == sequences.end())
    return error(ErrorKind::not_found, "sequence ", id, ": is not open: want one that was kept");
  if (found->second.request == 0) return &found->second;
  return error(ErrorKind::invalid, "sequence ", id, ": is extended by request ", found->second.request,
               ": want an idle one");
}

SequenceId Board::open(OpenSequence sequence) {
  sequence.last_used = ++clock;
  sequences.emplace(++last_id, std::move(sequence));
  return last_id;
}

Pending pending_of(const Job& job, const CachedHistory& text, const Cache& cache, uint32_t most_adjustments) {
  const History& history = text.history;
  const auto size = static_cast<uint32_t>(history.size());
  Pending pending{.id = job.id, .next = text.cached, .history = history};
  pending.logits_at = std::span(job.logits_at).subspan(job.logits_given);
  pending.generating =
      job.tokens_left > 0 && text.cached + 1 == size && history.back().token_class == TokenClass::decode;
  if (pending.generating) {
    pending.end = size;
    pending.token_class = TokenClass::decode;
  } else {
    pending.end = run_end(history, text.cached, cache.any_class());
    if (cache.has_slots()) pending.end = std::min(pending.end, next_mark(job, text.cached));
    pending.token_class = cache.any_class() ? TokenClass::prompt : history[text.cached].token_class;
  }
  if (pending.end == size && job.tokens_left > 0) pending.adjustments = most_adjustments;
  return pending;
}

uint32_t resume_bound(const Job& job, const CachedHistory& text) {
  const auto size = static_cast<uint32_t>(text.history.size());
  const uint32_t bound = job.tokens_left > 0 ? size - 1 : size;
  return job.logits_given < job.logits_at.size() ? std::min(bound, job.logits_at[job.logits_given]) : bound;
}

}  // namespace sluice
