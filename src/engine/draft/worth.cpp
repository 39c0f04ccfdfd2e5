#include "engine/draft/worth.h"

#include <algorithm>

namespace sluice {
namespace {

// One more row is thought to cost this share of the step. A time counts as at most kFarOff times the known one, or, the
// first time, as that much of what was expected: such a step may wait for memory that was not used before.
constexpr double kRowShare = 0.1, kFarOff = 2, kNew = 0.2;
constexpr double kGain = 1.03;
// Times of steps with guesses are forgotten after so many steps, so that a time that was off is taken anew.
constexpr uint64_t kRemembered = 256;
constexpr uint32_t kMostRows = 128;

}  // namespace

size_t DraftWorth::class_of(uint32_t match) {
  return match <= 2 ? 0 : match == 3 ? 1 : match <= 5 ? 2 : match <= 8 ? 3 : match <= 15 ? 4 : 5;
}

double DraftWorth::chance(uint32_t match) const { return chances_[class_of(match)].get(); }
void DraftWorth::learn(uint32_t match, bool right) { chances_[class_of(match)].learn(right); }

void DraftWorth::took(uint32_t jobs, uint32_t rows, double seconds) {
  jobs_ = jobs;
  ++step_;
  if (rows > kMostRows) return;
  if (costs_.size() <= rows) costs_.resize(rows + 1);
  const double thought = cost(rows);
  Cost& own = costs_[rows];
  if (own.step == 0 || (rows > jobs && !known(rows)))
    own.seconds = thought > 0 ? std::min(seconds, kFarOff * thought) : seconds;
  else
    own.seconds += kNew * (std::min(seconds, kFarOff * own.seconds) - own.seconds);
  own.step = step_;
}

bool DraftWorth::known(uint32_t rows) const {
  if (rows >= costs_.size() || costs_[rows].step == 0) return false;
  return rows <= jobs_ || step_ - costs_[rows].step < kRemembered;
}

// Of steps that were not seen: between those that were, or the largest one below and a share for each row more. 0:
// there is none below.
double DraftWorth::cost(uint32_t rows) const {
  uint32_t below = rows, above = rows;
  while (below > 0 && !known(below)) --below;
  if (below == 0 || below == rows) return below == 0 ? 0 : costs_[below].seconds;
  while (above < costs_.size() && !known(above)) ++above;
  const double from = costs_[below].seconds;
  if (above >= costs_.size()) return from * (1 + kRowShare * (rows - below));
  return from + (costs_[above].seconds - from) * (rows - below) / (above - below);
}

uint32_t DraftWorth::best(uint32_t match, uint32_t most) const {
  const double plain = cost(jobs_);
  if (plain <= 0) return 0;
  uint32_t best = 0;
  double best_rate = kGain / plain, all_right = 1, tokens = 1;
  for (uint32_t guesses = 1; guesses <= most; ++guesses) {
    all_right *= chance(match + guesses - 1);
    tokens += all_right;
    const double rate = tokens / cost(jobs_ * (1 + guesses));
    if (rate <= best_rate) continue;
    best = guesses;
    best_rate = rate;
  }
  return best;
}

}  // namespace sluice
