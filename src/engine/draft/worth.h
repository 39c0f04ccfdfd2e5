// How many tokens to guess: as many as give the most tokens a second, by what was seen so far. Guesses that do not pay
// are not made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// The chance that a guess is right, by the guesses that were seen.
class DraftChance {
 public:
  // `first`: what is thought before anything is seen. It weighs as much as kFirstWeight guesses.
  explicit DraftChance(double first = 0.5) : first_(first) {}
  double get() const { return (kFirstWeight * first_ + right_) / (kFirstWeight + tried_); }
  void learn(bool right) {
    right_ = kFade * right_ + (right ? 1 : 0);
    tried_ = kFade * tried_ + 1;
  }

 private:
  static constexpr double kFirstWeight = 4, kFade = 0.98;
  double first_;
  double right_ = 0, tried_ = 0;  // later ones weigh more
};

// Two things are learnt. The chance that a guess is right depends on how many tokens before it were found before; it is
// seen without a guess being computed, since the token that the model samples anyway says whether it would have been
// right. The time of a decode step depends on its rows; it is seen of each step.
class DraftWorth {
 public:
  // So many tokens before a guess were found before (Lookup::Found::match).
  double chance(uint32_t match) const;
  void learn(uint32_t match, bool right);

  // A decode step of `jobs` answers with `rows` rows took so long.
  void took(uint32_t jobs, uint32_t rows, double seconds);

  // The number of guesses behind a match, at most `most`, that gives the most tokens a second if each answer of the
  // last step makes as many: 0 unless that is 3 % more than without guesses.
  uint32_t best(uint32_t match, uint32_t most) const;

 private:
  struct Cost {
    double seconds = 0;
    uint64_t step = 0;  // when it was last seen; 0: never
  };
  static size_t class_of(uint32_t match);
  bool known(uint32_t rows) const;
  double cost(uint32_t rows) const;

  // By class, from short matches to long ones.
  std::array<DraftChance, 6> chances_ = {DraftChance(0.25), DraftChance(0.35), DraftChance(0.5),
                                         DraftChance(0.65), DraftChance(0.8),  DraftChance(0.9)};
  std::vector<Cost> costs_;  // by rows
  uint32_t jobs_ = 1;
  uint64_t step_ = 0;
};

}  // namespace sluice
