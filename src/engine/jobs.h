// What an engine has under way: requests and the sequences that they extend. Plain state; engine.cpp moves it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/engine.h"
#include "engine/schedule.h"
#include "engine/state/cache.h"

namespace sluice {

struct OpenSequence {
  CachedHistory text = {};
  bool keep = false;
  RequestId request = 0;                  // that extends it now; 0: idle
  uint64_t last_used = 0;                 // by the board's clock
  std::vector<uint32_t> boundaries = {};  // of requests since its state was kept: multiples of 64
};

struct Job {
  // reading: of what is kept of its history, before it runs.
  enum class State : uint8_t { waiting, reading, running, finished };

  RequestId id = 0;  // the larger, the younger
  Request request;
  SequenceId sequence = 0;
  State state = State::waiting;
  bool started = false;  // has been running before
  bool cancelled = false;
  uint32_t history_before = 0;      // tokens of the sequence at submit
  uint32_t tokens_left = 0;         // to be sampled
  std::vector<uint32_t> logits_at;  // positions in the history
  size_t logits_given = 0;
  std::vector<SnapshotMark> marks;  // ascending
  std::vector<int32_t> guesses;     // whose rows may join the next step, behind the known ones
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
  // One more, used just now.
  SequenceId open(OpenSequence sequence);
};

// The rows that a running job wants next; it is not done. They end at a mark where `cache` has slots, because the state
// of a snapshot is that at the end of a step.
Pending pending_of(const Job& job, const CachedHistory& text, const Cache& cache, uint32_t most_adjustments);

// Where the job's sequence must go on at the latest, so that all that the job still wants is computed.
uint32_t resume_bound(const Job& job, const CachedHistory& text);

}  // namespace sluice
