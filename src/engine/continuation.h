// How sequences go on behind their last known token. Before a step the engine asks for the next rows of each sequence,
// and after it how many of the sampled tokens stand.
//
//   OneToken   the last known token gives the next one; nothing is guessed
//   Drafts     tokens guessed to follow are computed beside it (draft/drafts.h)
//
// Answers do not depend on it: a guess stands only where the model samples the same token.
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
  std::span<const int32_t> guesses = {};       // behind them
  bool complete = true;                        // false: the same rows come again
  std::span<const SampleResult> results = {};  // behind the last known row and behind each guess; none: not sampled
};

class Continuation {
 public:
  virtual ~Continuation() = default;

  // Tokens guessed to follow the history of a running job that generates. Their rows join its next step.
  virtual std::vector<int32_t> next_rows(const Job& /*job*/, const History& /*history*/) { return {}; }
  // A step has ended, with these rows of all its jobs, and took so long. Then take_rows() follows for each job.
  virtual void end_step(TokenClass /*token_class*/, double /*seconds*/, std::span<const EndedRows> /*parts*/) {}
  // The known rows stand, and the engine takes the first result. Results behind guesses that stand are kept for
  // next_result().
  virtual void take_rows(Job& /*job*/, const History& /*history*/, TokenClass /*token_class*/,
                         const EndedRows& /*rows*/) {}
  // The next of those results, with whose row the known ones end one later. One is taken a turn, so that whoever
  // watches an answer may end it behind any token.
  virtual bool has_results() const { return false; }
  virtual std::optional<SampleResult> next_result(RequestId /*job*/) { return std::nullopt; }

  // What it reads back from a step of so many rows.
  virtual void add_reads(uint32_t /*rows*/, std::vector<ReadRequest>& /*reads*/) {}
  // Work of its own between two steps: start() is false when there is none, poll() is true when something has ended.
  virtual bool start() { return false; }
  virtual bool busy() const { return false; }
  virtual bool poll() { return false; }

  virtual void forget(const Job& /*job*/) {}  // it has finished
  virtual void forget_sequence(SequenceId /*sequence*/) {}
  virtual void forget_all() {}  // what was computed: the device has failed

  virtual void add_to(EngineStats& /*stats*/) const {}
};

// Guesses nothing.
class OneToken final : public Continuation {};

}  // namespace sluice
