#include "serve/keep_alive.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace sluice {
namespace {

constexpr double kMostSeconds = 1e9;  // some thirty years

std::optional<double> seconds_of_unit(std::string_view unit) {
  if (unit == "h") return 3600;
  if (unit == "m") return 60;
  if (unit == "s") return 1;
  if (unit == "ms") return 1e-3;
  if (unit == "us") return 1e-6;
  if (unit == "ns") return 1e-9;
  return std::nullopt;
}

std::optional<KeepAlive> bounded(double seconds) {
  if (!std::isfinite(seconds)) return std::nullopt;
  return seconds < 0 ? kKeepLoaded : KeepAlive(std::min(seconds, kMostSeconds));
}

}  // namespace

std::optional<KeepAlive> parse_keep_alive(std::string_view text) {
  if (const std::optional<double> plain = parse_number(text)) return bounded(*plain);
  const bool negative = starts_with(text, "-");
  if (negative) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const size_t next = std::min(text.find_first_of("0123456789.", digits), text.size());
    const std::optional<double> count = parse_number(text.substr(0, digits));
    const std::optional<double> unit = seconds_of_unit(text.substr(digits, next - digits));
    if (!count || !unit) return std::nullopt;
    sum += *count * *unit;
    text.remove_prefix(next);
  }
  return bounded(negative ? -sum : sum);
}

Outcome<std::optional<KeepAlive>> read_keep_alive(const Json* field) {
  if (field == nullptr || field->is_null()) return std::optional<KeepAlive>();
  std::optional<KeepAlive> read;
  if (field->is_number()) read = bounded(field->as_number());
  if (field->is_string()) read = parse_keep_alive(field->as_string());
  if (!read)
    return refuse("keep_alive", "keep_alive is ", printable(write_json(*field)),
                  ": want seconds, or a duration such as \"5m\"");
  return read;
}

}  // namespace sluice
