#include "engine/diagnosis.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace sluice {

void Diagnosis::add(FlightPart part, TokenClass token_class) {
  part.wanted.resize(part.wanted.size() - part.guesses.size());
  part.guesses.clear();
  sick_.push_back({.token_class = token_class, .parts = {std::move(part)}, .diagnosing = true});
}

std::optional<Flight> Diagnosis::next() {
  if (sick_.empty()) return std::nullopt;
  Flight flight = std::move(sick_.back());
  sick_.pop_back();
  return flight;
}

bool Diagnosis::concerns(RequestId id) const {
  return std::any_of(sick_.begin(), sick_.end(), [id](const Flight& flight) { return flight.concerns(id); });
}

std::string Diagnosis::sentence(const FlightPart& part, const std::optional<NonFinite>& found) {
  if (!found) return cat("token ", part.portion.end - 1, ": logits are not finite");
  const std::string layer = found->layer < 0 ? std::string() : cat("layer ", found->layer, ", ");
  return cat("token ", part.portion.begin + found->row, ": ", layer, found->what, ": result is not finite");
}

}  // namespace sluice
