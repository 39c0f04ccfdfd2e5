// Drafts: guessed tokens that are computed in the same step as the last known token (speculative decoding, Leviathan et
// al. 2022, arXiv:2211.17192, with the random numbers of both models in common).
//
// Each row of such a step samples its next token as if the row came alone. Drafts are kept up to the first one that the
// model samples otherwise, so drafts change no answer.
#pragma once

#include <cstdint>

namespace sluice {

// How many tokens to draft for one answer: twice as many after a step whose drafts were all right, else one more than
// were right.
class DraftLength {
 public:
  explicit DraftLength(uint32_t most) : most_(most), length_(most) {}
  uint32_t length() const { return length_; }
  void learn(uint32_t drafted, uint32_t accepted);

 private:
  uint32_t most_, length_;
};

// Whether drafting by a head pays, which costs time even where no guess is right. The gauge times some decode steps
// without drafts, then some with drafts. The way with more tokens a second is kept for a while, then both are timed
// again. Each time that drafting loses again, it stays off for longer.
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
