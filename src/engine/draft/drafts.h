// Drafts: a Continuation that guesses tokens, from the text itself (n-grams), by the model's draft head, or by
// whichever of the two is right more often.
//
// N-grams are looked up at every step, and guessed as far as that is worth it. The head runs between two steps of the
// text, on the steps' hidden rows. A gauge times steps with and without its drafts, and turns it off while it does not
// pay.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/continuation.h"
#include "engine/draft/draft.h"
#include "engine/draft/draft_head.h"
#include "engine/draft/lookup.h"
#include "engine/draft/worth.h"
#include "engine/plan/layout.h"

namespace sluice {

class Drafts final : public Continuation {
 public:
  // Guesses by n-grams.
  explicit Drafts(const DraftOptions& options) : options_(options) {}
  // Guesses by a draft head, too. `program`: the text program, `limits`: those of its steps.
  static Result<std::unique_ptr<Drafts>> with_head(const DraftOptions& options, DraftModel head, const Program& program,
                                                   const DraftHead::Limits& limits, Device& device, Budget& budget);
  const DraftHead* head() const { return head_.get(); }

  std::vector<int32_t> next_rows(const Job& job, const History& history) override;
  void take_rows(Job& job, const CachedHistory& text, TokenClass token_class, const EndedRows& rows) override;
  bool has_results() const override;
  std::optional<SampleResult> next_result(RequestId job) override;
  void add_reads(const SymbolCounts& counts, std::vector<ReadRequest>& reads) override;
  void end_step(TokenClass token_class, double seconds, std::span<const EndedRows> parts) override;
  bool start() override;
  bool busy() const override { return head_ && head_->busy(); }
  bool poll() override;
  void forget(const Job& job) override { answers_.erase(job.id); }
  void forget_sequence(SequenceId sequence, const CachedHistory& text) override;
  void forget_all() override;
  void add_to(EngineStats& stats) const override;

 private:
  using Clock = std::chrono::steady_clock;
  // Of one request.
  struct Answer {
    DraftLength length;                       // of the head's guesses, or of n-grams without a head
    bool by_head = false;                     // who made the last guesses
    std::vector<SampleResult> standing = {};  // results that the engine has not taken yet, the next one last
    // By n-grams:
    Lookup lookup = {};
    uint32_t match = 0;                   // of the tokens below
    std::vector<int32_t> looked_up = {};  // behind the history, also where they are not guessed
  };

  // Rows of the last step, for the head: by DraftHead::carried().
  struct Carried {
    ValueId value = kNone;  // of the text program
    std::vector<float> rows = {};
  };

  Status carry(const Program& program, const DraftHead::Limits& limits, Budget& budget);
  bool drafting() const { return options_.always || gauge_.drafts(); }
  std::vector<int32_t> guesses_of_head(const Job& job, const History& history, const Answer& answer) const;
  void learn_guesses(Answer& answer, uint32_t guessed, std::span<const SampleResult> sampled);
  uint32_t worth_guessing(Answer& answer, const History& history, uint32_t most);
  void make_right(const Job& job, size_t known, std::vector<int32_t>& guesses) const;
  void learn_chances(const Answer& answer, std::span<const SampleResult> sampled);
  void learn_times(double seconds, std::span<const EndedRows> parts);
  uint32_t most_at_once() const;
  Answer& answer(RequestId job) { return answers_.try_emplace(job, Answer{DraftLength(most_at_once())}).first->second; }
  void feed_head(const Job& job, const CachedHistory& text, const EndedRows& rows, size_t standing);

  DraftOptions options_;
  std::map<RequestId, Answer> answers_;
  DraftGauge gauge_;                     // of the head
  DraftChance head_chance_;              // that the head's first guess is right
  DraftWorth worth_;                     // of n-grams
  uint64_t drafted_ = 0, accepted_ = 0;  // tokens

  std::unique_ptr<DraftHead> head_;  // null: n-grams
  std::vector<Carried> carried_;
  Reservation reserved_;  // of carried_
  TokenClass fed_class_{};
  Clock::time_point head_started_ = {};
  double head_seconds_ = 0;  // the head's time since the last decode step
};

}  // namespace sluice
