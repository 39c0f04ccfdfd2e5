// An engine's jobs (requests under way) and open sequences. Plain state, which engine.cpp changes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/adapters/adapter_slots.h"
#include "engine/engine.h"
#include "engine/schedule.h"
#include "engine/state/cache.h"

namespace sluice {

struct OpenSequence {
  CachedHistory text = {};
  bool keep = false;
  RequestId request = 0;                  // the one that extends it now; 0: idle
  uint64_t last_used = 0;                 // by the board's clock
  std::vector<uint32_t> boundaries = {};  // multiples of 64 whose states are not in the state store yet
};

struct Job {
  // reading: a kept state of its history is read before it runs.
  enum class State : uint8_t { waiting, reading, running, finished };

  RequestId id = 0;  // younger jobs have larger ids
  Request request;
  std::optional<AdapterRow> adapter = {};  // from its first start to its end
  SequenceId sequence = 0;
  State state = State::waiting;
  bool started = false;  // has run before, and may wait again
  bool cancelled = false;
  uint32_t history_before = 0;      // tokens of the sequence at submit
  uint32_t tokens_left = 0;         // to be sampled
  std::vector<uint32_t> logits_at;  // positions in the history
  size_t logits_given = 0;
  std::vector<SnapshotMark> marks;  // ascending
  std::vector<int32_t> guesses;     // drafted tokens whose rows may join the next step
  std::span<const uint32_t> mask;   // of the token that the next step samples; empty: every token may come
  Progress progress;

  bool done(const CachedHistory& text) const {
    return tokens_left == 0 && logits_given == logits_at.size() && text.cached == text.history.size();
  }
};

struct Board {
  std::map<SequenceId, OpenSequence> sequences;
  std::map<RequestId, Job> jobs;
  uint64_t last_id = 0;  // of requests and sequences
  uint64_t clock = 0;    // counts uses of sequences

  OpenSequence& sequence_of(const Job& job) { return sequences.at(job.sequence); }
  // An open sequence that no request extends, or a sentence.
  Result<OpenSequence*> idle_sequence(SequenceId id);
  // Adds a sequence, as used just now.
  SequenceId open(OpenSequence sequence);
};

// The rows that a running job needs next. The job must not be done. If `cache` has slots, the rows end at the next
// mark, because a slot holds the state at the end of a step.
Pending pending_of(const Job& job, const CachedHistory& text, const Cache& cache, uint32_t most_adjustments);

// The last position from which the job's sequence may go on, so that no row that the job still needs is skipped.
uint32_t resume_bound(const Job& job, const CachedHistory& text);

}  // namespace sluice
