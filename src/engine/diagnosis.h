// Diagnosis of rows whose logits are not finite. The rows of each sequence concerned are played again alone, so that
// the device can name the first op that failed. The rows that such a step writes are provisional, because nothing was
// advanced over them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/flight.h"

namespace sluice {

class Diagnosis {
 public:
  // The part of a step that has ended. Its guesses are left out.
  void add(FlightPart part, TokenClass token_class);
  // A step for one of the parts, which is forgotten here; none without parts.
  std::optional<Flight> next();
  bool concerns(RequestId id) const;
  void clear() { sick_.clear(); }

  // "token 17: layer 3, rms_norm: result is not finite"
  static std::string sentence(const FlightPart& part, const std::optional<NonFinite>& found);

 private:
  std::vector<Flight> sick_;
};

}  // namespace sluice
