#include "text/grammar/number_range.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr size_t kMaxDigits = 400;

Expression digit(GrammarBuilder& builder, char first, char last) {
  if (first > last) return builder.nothing();
  return builder.bytes(ByteSet::range(static_cast<uint8_t>(first), static_cast<uint8_t>(last)));
}
Expression digits(GrammarBuilder& builder, uint32_t least, uint32_t most) {
  return builder.repeat(digit(builder, '0', '9'), least, most);
}
char above(char digit) { return static_cast<char>(digit + 1); }
char below(char digit) { return static_cast<char>(digit - 1); }

// Numbers of as many digits as `bound` that are larger (or smaller) than it.
Expression beyond(GrammarBuilder& builder, const std::string& bound, bool larger, bool leading_zero) {
  std::vector<Expression> parts;
  for (size_t i = 0; i < bound.size(); ++i) {
    const char least = i == 0 && bound.size() > 1 && !leading_zero ? '1' : '0';
    const Expression other = larger ? digit(builder, above(bound[i]), '9') : digit(builder, least, below(bound[i]));
    const auto rest = static_cast<uint32_t>(bound.size() - i - 1);
    parts.push_back(builder.sequence({builder.text(bound.substr(0, i)), other, digits(builder, rest, rest)}));
  }
  return builder.either(std::move(parts));
}

bool is_less(const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

// Numbers of one length strictly between two bounds of that length.
Expression between_of_length(GrammarBuilder& builder, const std::string& low, const std::string& high) {
  const auto parted = std::ranges::mismatch(low, high);
  const auto at = static_cast<size_t>(parted.in1 - low.begin());
  if (at == low.size()) return builder.nothing();
  const auto rest = static_cast<uint32_t>(low.size() - at - 1);
  const std::string low_rest = low.substr(at + 1), high_rest = high.substr(at + 1);
  const auto one = [&](char c) { return builder.text(std::string(1, c)); };
  return builder.sequence(
      {builder.text(low.substr(0, at)),
       builder.either({builder.sequence({one(low[at]), beyond(builder, low_rest, true, true)}),
                       builder.sequence({digit(builder, above(low[at]), below(high[at])), digits(builder, rest, rest)}),
                       builder.sequence({one(high[at]), beyond(builder, high_rest, false, true)})})});
}

// Whole numbers strictly above `low` (none: from 0 on) and strictly below `high` (none: without end).
Expression whole_between(GrammarBuilder& builder, const std::string* low, const std::string* high) {
  const auto longer = [&](size_t than, size_t at_most) {  // any with more digits than `than`
    std::vector<Expression> parts;
    if (than < 1 && at_most >= 1) parts.push_back(digit(builder, '0', '9'));
    const size_t least = std::max<size_t>(than + 1, 2);
    if (at_most >= least)
      parts.push_back(builder.sequence(
          {digit(builder, '1', '9'), digits(builder, static_cast<uint32_t>(least - 1),
                                            at_most == SIZE_MAX ? kUnbounded : static_cast<uint32_t>(at_most - 1))}));
    return builder.either(std::move(parts));
  };
  if (high == nullptr) {
    if (low == nullptr) return longer(0, SIZE_MAX);
    return builder.either({beyond(builder, *low, true, false), longer(low->size(), SIZE_MAX)});
  }
  if (low == nullptr) return builder.either({longer(0, high->size() - 1), beyond(builder, *high, false, false)});
  if (!is_less(*low, *high)) return builder.nothing();
  if (low->size() == high->size()) return between_of_length(builder, *low, *high);
  return builder.either({beyond(builder, *low, true, false), longer(low->size(), high->size() - 1),
                         beyond(builder, *high, false, false)});
}

// Fractions, with their point, that make the number larger (or smaller) than the bound's fraction; or equal to it.
Expression fractions_beyond(GrammarBuilder& builder, const std::string& bound, bool larger, bool equal) {
  std::vector<Expression> parts;
  const Expression zeros = builder.repeat(builder.text("0"), 0, kUnbounded);
  const Expression any = digits(builder, 0, kUnbounded);
  for (size_t i = 0; i < bound.size(); ++i) {
    const Expression other = larger ? digit(builder, above(bound[i]), '9') : digit(builder, '0', below(bound[i]));
    parts.push_back(builder.sequence({builder.text("." + bound.substr(0, i)), other, any}));
    // Cut short here the fraction is smaller, because the bound's last digit is none of its zeros.
    if (!larger && i > 0) parts.push_back(builder.text("." + bound.substr(0, i)));
  }
  if (!larger && !bound.empty()) parts.push_back(builder.empty());
  const std::string same = "." + bound;
  if (larger) parts.push_back(builder.sequence({builder.text(same), zeros, digit(builder, '1', '9'), any}));
  if (equal) {
    if (bound.empty())
      parts.push_back(
          builder.optional(builder.sequence({builder.text("."), builder.repeat(builder.text("0"), 1, kUnbounded)})));
    else
      parts.push_back(builder.sequence({builder.text(same), zeros}));
  }
  return builder.either(std::move(parts));
}

// Both at once: each fraction is compared with `low` and `high`, which differ first at a digit or by their length.
Expression fractions_between(GrammarBuilder& builder, const Bound& low, const Bound& high) {
  std::string a = low.fraction, b = high.fraction;
  const size_t length = std::max(a.size(), b.size());
  a.resize(length, '0');
  b.resize(length, '0');
  const bool both = !low.exclusive && !high.exclusive;
  const Expression zeros = builder.repeat(builder.text("0"), 0, kUnbounded);
  if (a > b || (a == b && !both)) return builder.nothing();
  if (length == 0) return fractions_beyond(builder, "", false, true);
  if (a == b) return builder.sequence({builder.text("." + low.fraction), zeros});
  const Expression any = digits(builder, 0, kUnbounded);
  size_t at = 0;
  while (a[at] == b[at]) ++at;
  std::vector<Expression> parts;
  const std::string begin = "." + a.substr(0, at);
  parts.push_back(builder.sequence({builder.text(begin), digit(builder, above(a[at]), below(b[at])), any}));
  for (size_t i = at + 1; i < length; ++i) {
    parts.push_back(builder.sequence({builder.text("." + a.substr(0, i)), digit(builder, above(a[i]), '9'), any}));
    parts.push_back(builder.sequence({builder.text("." + b.substr(0, i)), digit(builder, '0', below(b[i])), any}));
    // b cut short: smaller than b if a digit of it is left, and larger than a.
    if (b.find_first_not_of('0', i) != std::string::npos) parts.push_back(builder.text("." + b.substr(0, i)));
  }
  // All digits of a and something behind them.
  parts.push_back(builder.sequence({builder.text("." + a), zeros, digit(builder, '1', '9'), any}));
  if (!low.exclusive) {
    if (low.fraction.empty())
      parts.push_back(
          builder.optional(builder.sequence({builder.text("."), builder.repeat(builder.text("0"), 1, kUnbounded)})));
    else
      parts.push_back(builder.sequence({builder.text("." + low.fraction), zeros}));
  }
  if (!high.exclusive) parts.push_back(builder.sequence({builder.text("." + high.fraction), zeros}));
  return builder.either(std::move(parts));
}

// Numbers without sign between bounds that are not negative.
Expression magnitudes(GrammarBuilder& builder, const std::optional<Bound>& low, const std::optional<Bound>& high,
                      bool whole_only) {
  const Expression any_fraction =
      whole_only ? builder.empty()
                 : builder.optional(builder.sequence({builder.text("."), digits(builder, 1, kUnbounded)}));
  std::vector<Expression> parts = {builder.sequence(
      {whole_between(builder, low ? &low->whole : nullptr, high ? &high->whole : nullptr), any_fraction})};
  const auto at_bound = [&](const Bound& bound, bool larger) {
    const bool equal_whole = bound.fraction.empty() && !bound.exclusive;
    // Whole numbers: those of the bound's own whole part.
    if (whole_only)
      return larger ? (equal_whole ? builder.empty() : builder.nothing())
                    : (equal_whole || !bound.fraction.empty() ? builder.empty() : builder.nothing());
    return fractions_beyond(builder, bound.fraction, larger, !bound.exclusive);
  };
  if (low && high && low->whole == high->whole) {
    Expression both = builder.nothing();
    if (!whole_only)
      both = fractions_between(builder, *low, *high);
    else if (low->fraction.empty() && !low->exclusive && (!high->exclusive || !high->fraction.empty()))
      both = builder.empty();
    parts.push_back(builder.sequence({builder.text(low->whole), both}));
  } else {
    const bool empty_range = low && high && is_less(high->whole, low->whole);
    if (low && !empty_range) parts.push_back(builder.sequence({builder.text(low->whole), at_bound(*low, true)}));
    if (high && !empty_range) parts.push_back(builder.sequence({builder.text(high->whole), at_bound(*high, false)}));
  }
  return builder.either(std::move(parts));
}

Bound zero(bool exclusive) { return {.exclusive = exclusive}; }

}  // namespace

std::optional<Bound> make_bound(double value, bool exclusive) {
  if (!std::isfinite(value)) return std::nullopt;
  char text[800];
  const auto end = std::to_chars(text, text + sizeof text, std::fabs(value), std::chars_format::fixed);
  if (end.ec != std::errc()) return std::nullopt;
  Bound bound{.negative = value < 0, .exclusive = exclusive};
  const std::string_view all(text, static_cast<size_t>(end.ptr - text));
  const size_t point = all.find('.');
  bound.whole = all.substr(0, point);
  if (point != std::string_view::npos) bound.fraction = all.substr(point + 1);
  while (!bound.fraction.empty() && bound.fraction.back() == '0') bound.fraction.pop_back();
  if (bound.whole.size() + bound.fraction.size() > kMaxDigits) return std::nullopt;
  return bound;
}

Bound make_bound(int64_t value, bool exclusive) {
  std::string digits = cat(value);
  const bool negative = value < 0;
  return {.negative = negative, .whole = negative ? digits.substr(1) : digits, .exclusive = exclusive};
}

Expression numbers_between(GrammarBuilder& builder, const NumberRange& range, bool whole_only) {
  std::vector<Expression> parts;
  // From 0 on.
  const bool most_is_below = range.most && (range.most->negative || (range.most->is_zero() && range.most->exclusive));
  if (!most_is_below) {
    const std::optional<Bound> low = range.least && !range.least->negative ? range.least : std::nullopt;
    parts.push_back(magnitudes(builder, low, range.most, whole_only));
  }
  // Below 0, with the bounds' roles changed.
  const bool least_is_above = range.least && (!range.least->negative || range.least->is_zero());
  if (!least_is_above) {
    const std::optional<Bound> low =
        range.most && range.most->negative ? range.most : std::optional(zero(/*exclusive=*/true));
    parts.push_back(builder.sequence({builder.text("-"), magnitudes(builder, low, range.least, whole_only)}));
  }
  return builder.either(std::move(parts));
}

}  // namespace sluice
