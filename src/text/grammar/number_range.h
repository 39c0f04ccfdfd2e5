// Numbers between bounds, as parts of a grammar: their decimal digits are compared from the left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "text/grammar/grammar_builder.h"

namespace sluice {

// A bound in plain decimal digits: sign, whole part without leading zeros, fraction without trailing zeros.
struct Bound {
  bool negative = false;
  std::string whole = "0";
  std::string fraction = {};
  bool exclusive = false;

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};
// None: the number is not finite or has more than some hundred digits.
std::optional<Bound> make_bound(double value, bool exclusive);
Bound make_bound(int64_t value, bool exclusive);

struct NumberRange {
  std::optional<Bound> least, most;
};
// Whole numbers only, or also fractions. Bounded numbers have no exponent.
Expression numbers_between(GrammarBuilder& builder, const NumberRange& range, bool whole_only);

}  // namespace sluice
