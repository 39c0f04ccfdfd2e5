// DraftHead: a model's own head for multi-token prediction (MTP), run between steps of its text program.
//
// Row p of the head takes the text program's hidden row p and token p + 1, and predicts token p + 2. For further
// tokens it takes its own hidden row and its own guess. The head keeps keys and values of the rows that stood. If rows
// are missing (the text went on from a snapshot, or drafting was off), the head begins anew behind the gap and counts
// positions from there. It then sees less and drafts a little worse; no answer depends on it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/state/pages.h"
#include "graph/ops/sample.h"

namespace sluice {

struct DraftModel {
  Program program;                        // inputs "tokens", "hidden", "wanted"; outputs "sample", "hidden"
  const WeightSource* weights = nullptr;  // outlives the engine
};

// Rows of one sequence that stood in a step of the text.
struct DraftFeed {
  uint64_t sequence = 0;
  uint32_t begin = 0;               // position of the first row
  std::span<const float> hidden{};  // of the rows from `begin` on; must not change until the head is idle
  std::vector<int32_t> tokens{};    // the token behind each row
  uint32_t drafts = 0;              // wanted behind the last token
  SampleRow sampling{};             // by which the text program will sample
};

class DraftHead {
 public:
  struct Limits {
    Arithmetic arithmetic = Arithmetic::fast;
    uint32_t rows = 0;  // of a step
    uint32_t sequences = 0;
    uint32_t context = 0;
  };
  // The memory that a head with these limits would take.
  static Result<std::vector<MemoryLine>> memory(const DraftModel& model, const Device& device, const Limits& limits);
  static Result<std::unique_ptr<DraftHead>> create(DraftModel model, Device& device, Budget& budget,
                                                   const Limits& limits);

  void feed(DraftFeed feed) { feeds_.push_back(std::move(feed)); }
  // Begins to run the rows that were fed; false when there are none.
  bool start(TokenClass token_class);
  bool busy() const { return ticket_.has_value(); }
  bool poll();  // true when something has ended
  // The tokens drafted behind the first `known` tokens of a sequence.
  std::vector<int32_t> draft(uint64_t sequence, size_t known) const;
  void forget(uint64_t sequence);
  // For a device that has failed.
  void forget_all() { states_.clear(); }
  size_t sequences() const { return states_.size(); }  // that have keys and values here

 private:
  struct State {
    uint32_t base = 0, end = 0;  // the pages hold rows [base, end) of the text
    PageTable pages;
    std::vector<int32_t> drafts = {};  // behind token `end`
  };
  // Rows of one sequence in the running step.
  struct Part {
    size_t feed = 0;
    uint32_t position = 0, rows = 0;  // counted from the base
  };

  DraftHead(std::unique_ptr<DraftModel> model, std::unique_ptr<Runner> runner, const StepMaxima& maxima,
            uint32_t pages);
  Status find_ports();
  State* state_of(const DraftFeed& feed);
  bool provide(State& state, uint32_t rows);
  void start_step();
  void fill(std::span<const float> hidden, std::span<const int32_t> tokens, const Part& part, uint32_t sequence,
            uint32_t row);
  void land(bool well);

  std::unique_ptr<DraftModel> model_;
  std::unique_ptr<Runner> runner_;
  PagePool pool_;  // outlives the tables in states_
  std::map<uint64_t, State> states_;
  StepBuffer step_;
  uint32_t tokens_ = 0, hidden_ = 0, wanted_ = 0;  // inputs
  ValueId sample_ = kNone, hidden_out_ = kNone;
  uint32_t width_ = 0;
  TokenClass class_{};
  std::vector<DraftFeed> feeds_;
  std::vector<Part> parts_;
  std::vector<SampleResult> results_;
  std::vector<float> rows_;  // hidden rows that the last step gave for its wanted rows
  std::optional<Ticket> ticket_;
  Reservation reserved_;
};

}  // namespace sluice
