// The step under way: which requests take part, with which rows, and where their results will be.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/schedule.h"

namespace sluice {

// The part of one request.
struct FlightPart {
  RequestId job = 0;
  Portion portion;
  std::vector<int32_t> guesses = {};  // rows behind the portion's
  std::vector<uint32_t> wanted = {};  // positions
  uint32_t first_wanted = 0;          // among the step's wanted rows
  uint32_t first_row = 0;             // among the step's rows
  bool samples = false;
};

struct Flight {
  Ticket ticket = 0;
  TokenClass token_class{};
  std::vector<FlightPart> parts = {};
  bool diagnosing = false;            // diagnosis.h
  bool stopped = false;               // until experts are read
  std::optional<Error> failure = {};  // of a page copy before the step
  std::chrono::steady_clock::time_point started = {};

  bool concerns(RequestId id) const {
    return std::any_of(parts.begin(), parts.end(), [id](const FlightPart& part) { return part.job == id; });
  }
};

}  // namespace sluice
