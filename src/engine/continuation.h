// Continuation: how a sequence goes on behind its last known token. Before a step the engine asks for guessed tokens of
// each sequence. After the step it asks which sampled tokens stand.
//
//   OneToken   guesses nothing: each step samples one token of a sequence
//   Drafts     guesses tokens, which are computed in the same step (draft/drafts.h)
//
// Answers do not depend on the guesses: a guess stands only if the model samples the same token.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "engine/jobs.h"

namespace sluice {

// The rows of one job in a step that has ended.
struct EndedRows {
  uint32_t begin = 0, end = 0;                 // positions whose tokens were known
  uint32_t first_row = 0;                      // of the step
  uint32_t last_wanted = 0;                    // of the step's wanted rows: the last known row; its guesses' follow
  std::span<const int32_t> guesses = {};       // guessed tokens behind the known ones
  bool complete = true;                        // false: the same rows are computed again
  bool may_guess = true;                       // Request::may_guess
  std::span<const SampleResult> results = {};  // of the last known row and of each guess; empty: nothing was sampled
};

class Continuation {
 public:
  virtual ~Continuation() = default;

  // Guesses the tokens that follow the history of a generating job. Their rows join the job's next step.
  virtual std::vector<int32_t> next_rows(const Job& /*job*/, const History& /*history*/) { return {}; }
  // A step has ended after so many seconds. `parts`: the rows of all its jobs. The engine then calls take_rows() for
  // each job.
  virtual void end_step(TokenClass /*token_class*/, double /*seconds*/, std::span<const EndedRows> /*parts*/) {}
  // The engine has taken the known rows and the first result. Results behind standing guesses are kept for
  // next_result().
  virtual void take_rows(Job& /*job*/, const CachedHistory& /*text*/, TokenClass /*token_class*/,
                         const EndedRows& /*rows*/) {}
  // The next kept result. Taking it makes one more row known. The engine takes one result a turn, so that a caller can
  // end the answer behind any token.
  virtual bool has_results() const { return false; }
  virtual std::optional<SampleResult> next_result(RequestId /*job*/) { return std::nullopt; }

  // Adds the values that it reads back from a step with these counts.
  virtual void add_reads(const SymbolCounts& /*counts*/, std::vector<ReadRequest>& /*reads*/) {}
  // Its own work between two steps, such as a draft head's. start() is false when there is none; poll() is true when
  // something has ended.
  virtual bool start() { return false; }
  virtual bool busy() const { return false; }
  virtual bool poll() { return false; }

  virtual void forget(const Job& /*job*/) {}  // the job has finished
  virtual void forget_sequence(SequenceId /*sequence*/, const CachedHistory& /*text*/) {}
  virtual void forget_all() {}  // the device has failed: nothing that it computed is trusted

  virtual void add_to(EngineStats& /*stats*/) const {}
};

// Guesses nothing.
class OneToken final : public Continuation {};

}  // namespace sluice
