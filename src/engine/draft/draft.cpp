#include "engine/draft/draft.h"

#include <algorithm>
#include <utility>

namespace sluice {

void DraftLength::learn(uint32_t drafted, uint32_t accepted) {
  if (drafted == 0) return;
  length_ = accepted == drafted ? std::min(most_, 2 * length_) : accepted + 1;
}

void DraftGauge::learn(uint64_t tokens, double seconds) {
  if (mode_ == Mode::plain_trial || mode_ == Mode::draft_trial) {
    Rate& rate = mode_ == Mode::plain_trial ? plain_ : drafting_;
    rate.tokens += tokens;
    rate.seconds += seconds;
  }
  if (--steps_left_ > 0) return;
  switch (mode_) {
    case Mode::plain_trial: return enter(Mode::draft_trial, kDraftTrial);
    case Mode::draft_trial: return decide();
    case Mode::on:
    case Mode::off: return enter(Mode::plain_trial, kPlainTrial);
  }
}

void DraftGauge::enter(Mode mode, uint32_t steps) {
  mode_ = mode;
  steps_left_ = steps;
}

void DraftGauge::decide() {
  const Rate plain = std::exchange(plain_, {}), drafting = std::exchange(drafting_, {});
  if (static_cast<double>(drafting.tokens) * plain.seconds >= static_cast<double>(plain.tokens) * drafting.seconds) {
    off_steps_ = kHold;
    return enter(Mode::on, kHold);
  }
  enter(Mode::off, off_steps_);
  off_steps_ = std::min(2 * off_steps_, kLongestOff);
}

}  // namespace sluice
