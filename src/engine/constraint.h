// Constraint: which tokens an answer may have. The engine knows no grammar. Before it samples, it asks which tokens may
// come next; behind each token that stands it says which one came. One answer has one constraint, and only the thread
// of its engine calls it.
//
// Nothing is drafted under a mask: each guess would need a mask of its own, computed before the step and mostly in
// vain. A constraint that knows where every token may come tells it by free_guesses(), and there drafts go on. The
// answer is the same. Where only one token may come, it is not sampled: the engine takes it at once, and the next step
// computes the rows of several such tokens together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace sluice {

class Constraint {
 public:
  virtual ~Constraint() = default;

  // A bit for each token of the vocabulary (graph/ops/sample.h); empty: every token may come. Good until accept().
  virtual Result<std::span<const uint32_t>> mask() = 0;
  // The only token that mask() allows; none: it allows several, or the answer shall sample in any case.
  virtual std::optional<int32_t> forced() { return std::nullopt; }
  // How many of the guesses may be drafted: before the first and behind each of them every token may come. None:
  // nothing is ever drafted for the answer.
  virtual std::optional<size_t> free_guesses(std::span<const int32_t> /*guesses*/) const { return std::nullopt; }
  // False: the token may not stand here. That happens when no allowed token could be sampled.
  virtual bool accept(int32_t token) = 0;
};

}  // namespace sluice
