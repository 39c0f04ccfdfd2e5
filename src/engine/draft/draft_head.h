// DraftHead: a model's own head for multi-token prediction (MTP), run beside its text program.
//
// Row p of the head takes the text program's hidden row p and the token behind it, and foretells the token after that;
// more of them by taking its own hidden row and guess in their place. Its keys and values follow the steps of the text
// that stood. Where it was not given a stretch of a text - a snapshot was taken up, drafting was off - it begins anew
// behind it and counts positions from there: it sees less, and drafts a little worse; no answer depends on it.
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
  std::span<const float> hidden{};  // of rows from `begin` on; untouched until the head is idle
  std::vector<int32_t> tokens{};    // behind each row
  uint32_t drafts = 0;              // wanted behind the last one
  SampleRow sampling{};             // by which the text will choose
};

class DraftHead {
 public:
  struct Limits {
    Arithmetic arithmetic = Arithmetic::fast;
    uint32_t rows = 0;  // of a step
    uint32_t sequences = 0;
    uint32_t context = 0;
  };
  // What one would hold of the budget.
  static Result<std::vector<MemoryLine>> memory(const DraftModel& model, const Device& device, const Limits& limits);
  static Result<std::unique_ptr<DraftHead>> create(DraftModel model, Device& device, Budget& budget,
                                                   const Limits& limits);

  void feed(DraftFeed feed) { feeds_.push_back(std::move(feed)); }
  // Begins to run what was fed; false when there is nothing.
  bool start(TokenClass token_class);
  bool busy() const { return ticket_.has_value(); }
  bool poll();  // true when something has ended
  // What was drafted behind the first `known` tokens of a sequence.
  std::vector<int32_t> draft(uint64_t sequence, size_t known) const;
  void forget(uint64_t sequence);
  // After a failed device.
  void forget_all() { states_.clear(); }
  size_t sequences() const { return states_.size(); }  // of which it keeps something

 private:
  struct State {
    uint32_t base = 0, end = 0;  // rows [base, end) of the text stand in the pages
    PageTable pages;
    std::vector<int32_t> drafts = {};  // behind token `end`
  };
  // Rows of a sequence in the step under way.
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
  std::vector<float> rows_;  // hidden rows of the last step's wanted ones
  std::optional<Ticket> ticket_;
  Reservation reserved_;
};

}  // namespace sluice
