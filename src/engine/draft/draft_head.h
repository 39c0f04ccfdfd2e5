// DraftHead: a program that guesses tokens from what the text program computed, run between steps of the text program:
// a model's own head for multi-token prediction (MTP), or a small model beside it.
//
// Row p of the head takes the text program's hidden row p and token p + 1, and predicts token p + 2. For further
// tokens it takes its own hidden row and its own guess. There are two kinds of heads:
//
//   - A head whose "tokens" and "hidden" have the step's rows computes keys and values of its own for each row. A
//     further guess is a row more.
//   - A head whose "tokens" and "hidden" have wanted rows reads keys and values of the text program, which are further
//     inputs. All guesses are made at the last row of the text and see the same keys.
//
// The head keeps the keys and values of the rows that stood, and snapshots of them where the text leaves its own. A
// sequence that goes on from a snapshot of the text goes on from the head's, too. If rows are missing (pages were
// short, the text's state came from a file, or drafting was off), the head begins anew behind the gap. It then sees
// less and drafts a little worse; no answer depends on it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/state/cache.h"
#include "graph/ops/sample.h"

namespace sluice {

struct DraftModel {
  // Inputs "tokens" and "wanted", and "hidden" and others under the names of the text program's outputs of which they
  // are rows. Perhaps an input "positions" i32 [rows, 1]: the place in the text of the token behind each row; without
  // it the head counts rows from where it began. Outputs "sample" and "hidden".
  Program program;
  const WeightSource* weights = nullptr;  // outlives the engine
};

// Rows of one sequence that stood in a step of the text.
struct DraftFeed {
  uint64_t sequence = 0;
  uint32_t begin = 0;             // position of the first row
  std::vector<int32_t> tokens{};  // the token behind each row
  // By DraftHead::carried(): the numbers of these rows or, if it has wanted rows, of the last one. They must not change
  // until the head is idle.
  std::vector<std::span<const float>> carried{};
  uint32_t drafts = 0;   // wanted behind the last token
  SampleRow sampling{};  // by which the text program will sample
};

class DraftHead {
 public:
  struct Limits {
    Arithmetic arithmetic = Arithmetic::fast;
    uint32_t rows = 0;  // of a step
    uint32_t sequences = 0;
    uint32_t context = 0;
  };
  // The memory that a head with these limits would take, with the rows of a step that it is fed.
  static Result<std::vector<MemoryLine>> memory(const DraftModel& model, const Device& device, const Limits& limits);
  static Result<std::unique_ptr<DraftHead>> create(DraftModel model, Device& device, Budget& budget,
                                                   const Limits& limits);

  // A value of the text program whose rows the head takes.
  struct Carried {
    std::string name{};
    uint32_t input = 0;
    Symbol rows{};  // Symbol::rows: all rows that stood; Symbol::wanted: the last one
    size_t columns = 0;
  };
  static std::vector<Carried> carried_by(const Program& head);
  static uint64_t carried_bytes(const Program& head, uint32_t rows);  // of a step's rows
  const std::vector<Carried>& carried() const { return carried_; }

  const Program& program() const { return model_->program; }

  // `text`: the sequence, in which these rows are computed. `marks`: the positions at which the text leaves snapshots.
  void feed(DraftFeed feed, const CachedHistory& text, std::span<const SnapshotMark> marks);
  // Begins to run the rows that were fed; false when there are none.
  bool start(TokenClass token_class);
  bool busy() const { return ticket_.has_value(); }
  bool poll();  // true when something has ended
  // The tokens drafted behind the first `known` tokens of a sequence.
  std::vector<int32_t> draft(uint64_t sequence, size_t known) const;
  // Leaves a snapshot of what stands of `text`.
  void forget(uint64_t sequence, const CachedHistory& text);
  // For a device that has failed.
  void forget_all();
  size_t sequences() const { return states_.size(); }  // that have keys and values here

 private:
  struct State {
    uint32_t base = 0, end = 0;        // the pages hold rows [base, end) of the text
    std::vector<PageTable> pages;      // by group
    std::vector<int32_t> drafts = {};  // behind token `end`
    uint32_t kept = 0;                 // snapshots were left up to here
  };
  // Rows of one sequence in the running step.
  struct Part {
    size_t feed = 0;
    uint32_t position = 0, rows = 0;  // counted from the base
  };
  // What those rows take.
  struct Taken {
    std::span<const int32_t> tokens;
    std::vector<std::span<const float>> carried;
  };

  DraftHead(std::unique_ptr<DraftModel> model, std::unique_ptr<Runner> runner, const StepMaxima& maxima,
            const std::vector<uint32_t>& pages);
  Status find_ports();
  std::vector<PageTable> no_pages();
  bool goes_on(const State& state, uint32_t begin) const;
  void keep(const State& state, const CachedHistory& text, uint32_t position, bool at_boundary);
  void resume(uint64_t sequence, uint32_t begin, const CachedHistory& text);
  State* state_of(const DraftFeed& feed);
  bool provide(State& state, uint32_t rows);
  Taken further(const Part& part, size_t result) const;
  void start_step();
  void fill(const Taken& taken, const Part& part, uint32_t sequence, uint32_t row);
  void land(bool well);

  std::unique_ptr<DraftModel> model_;
  std::unique_ptr<Runner> runner_;
  std::vector<PagePool> pools_;  // by group; they outlive the tables in states_ and snapshots_
  std::map<uint64_t, State> states_;
  // A snapshot at position p has rows 0 to p - 1. The tree compares the tokens before p, but row p - 1 took token p,
  // too. If another token stands there now, that one row is not quite right.
  PrefixTree snapshots_{/*any_class=*/true};
  StepBuffer step_;
  uint32_t tokens_ = 0, wanted_ = 0;  // inputs
  std::optional<uint32_t> positions_;
  std::vector<Carried> carried_;
  size_t hidden_ = 0;      // of carried_
  bool in_place_ = false;  // all guesses are made at the last row
  ValueId sample_ = kNone, hidden_out_ = kNone;
  size_t width_ = 0;
  TokenClass class_{};
  std::vector<DraftFeed> feeds_;
  std::vector<Part> parts_;
  std::vector<SampleResult> results_;
  std::vector<float> rows_;  // hidden rows that the last step gave for its wanted rows
  std::optional<Ticket> ticket_;
  Reservation reserved_;
};

}  // namespace sluice
