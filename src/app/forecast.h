// How fast a model will decode within a memory bound, from its plan and this machine's measured bandwidths; and how
// often an expert will lie in memory, from recorded routing or a stated assumption.
#pragma once

#include <optional>
#include <string>

#include "app/open.h"
#include "engine/memory_plan.h"
#include "engine/routing_trace.h"
#include "graph/cost.h"

namespace sluice {

struct Bandwidths {
  double memory = 0;  // bytes a second
  double disk = 0;    // of direct reads; 0: not known
};

struct Forecast {
  std::string routing{};     // what the hit rates rest on; "": no experts are read
  double hit_rate = 1;       // of an expert that a token chooses, once slots are full
  double cold_hit_rate = 1;  // in the first kColdTokens, before which slots are empty
  double memory_bytes = 0;   // that a token reads there
  double disk_bytes = 0;     // and from the file, at hit_rate
  Bandwidths bandwidths{};
  double tokens_per_second = 0, cold_tokens_per_second = 0;  // likewise; 0: not known
};
inline constexpr uint32_t kColdTokens = 32;

// "zipf 1.0, 8 topics of 64 tokens", which is assumed where nothing was recorded.
RoutingTrace assumed_routing(const ExpertRoom& experts);

// Where the disk and the routing come from.
struct ForecastSources {
  std::optional<std::string> routing{};  // a recorded trace; none: assumed
  std::optional<double> disk{};          // bytes a second; none: measured on the model's file
  bool header_only = false;              // there is no file to measure with
};
struct Foresight {
  MemoryPlan plan;
  Forecast forecast;
};
// Plans a model and measures the machine, which takes a second. The reserve was measured before.
Result<Foresight> foresee(const Model& model, const WeightFiles& files, Machine& machine, EngineOptions options,
                          const ForecastSources& sources);

// `facts`: of the planned program. An error where the recorded trace is of another model.
Result<Forecast> forecast(const MemoryPlan& plan, const CostFacts& facts, const Bandwidths& bandwidths,
                          const std::optional<std::string>& recorded);

}  // namespace sluice
