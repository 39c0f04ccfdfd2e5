// Drafts: tokens guessed to follow, computed beside the token that is known and kept while the model samples them too.
// A step that carries drafts gives for each of its rows the token that follows it, sampled as if the row came alone; so
// answers are the same with any drafts, and without (Leviathan et al. 2022, arXiv:2211.17192, with the random numbers
// of both models in common).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/history.h"
#include "engine/options.h"

namespace sluice {

// What followed when the text's last tokens last stood in it, the most of them first: prompt lookup (Saxena 2023).
// At most `most` tokens; none where not even the last two tokens stand there.
std::vector<int32_t> ngram_draft(const History& history, uint32_t most);

// How many tokens to draft for one answer: more while all are right, few where they are wrong.
class DraftLength {
 public:
  explicit DraftLength(uint32_t most) : most_(most), length_(most) {}
  uint32_t length() const { return length_; }
  void learn(uint32_t drafted, uint32_t accepted);

 private:
  uint32_t most_, length_;
};

// Whether drafting pays: decode steps without drafts are timed, then some with, and whichever gave more tokens a second
// is held to, longer each time that it was without; then both are timed again.
class DraftGauge {
 public:
  enum class Mode : uint8_t { plain_trial, draft_trial, on, off };

  Mode mode() const { return mode_; }
  bool drafts() const { return mode_ == Mode::draft_trial || mode_ == Mode::on; }
  // A decode step gave so many tokens.
  void learn(uint64_t tokens, double seconds);

 private:
  struct Rate {
    uint64_t tokens = 0;
    double seconds = 0;
  };
  void enter(Mode mode, uint32_t steps);
  void decide();

  Mode mode_ = Mode::plain_trial;
  uint32_t steps_left_ = kPlainTrial;
  uint32_t off_steps_ = kHold;
  Rate plain_, drafting_;

  static constexpr uint32_t kPlainTrial = 4, kDraftTrial = 12, kHold = 64, kLongestOff = 1024;
};

}  // namespace sluice
