// Predicts a model's decode speed within a memory bound: from its plan and this machine's measured bandwidths, or on a
// GPU by timing steps without weights. Predicts the hit rate of experts from recorded routing or a stated assumption.
#pragma once

#include <optional>
#include <string>

#include "app/open/open.h"
#include "engine/experts/routing_trace.h"
#include "engine/plan/memory_plan.h"
#include "graph/cost.h"

namespace sluice {

// Times on a device with memory of its own: of a step of one token, and of a layer's wait for missing experts.
struct StepTimes {
  double step_seconds = 0;                     // with all its experts
  uint32_t dispatches = 0;                     // of the step
  bool reads = false;                          // whether missing experts were read
  double first_seconds = 0, next_seconds = 0;  // of a layer's first missing expert, and of each further one
};

struct Bandwidths {
  double memory = 0;  // bytes a second; for a GPU: of a copy in its own memory, counting reads and writes
  double disk = 0;    // bytes a second of direct reads; 0: not known
  double cache = 0;   // of the processor's last cache, where that holds all that a token reads; 0: it does not
};

struct Forecast {
  std::string routing{};     // the source of the hit rates; "": no experts are streamed
  double hit_rate = 1;       // the share of chosen experts that are in a slot, once slots are full
  double cold_hit_rate = 1;  // the same during the first kColdTokens, which begin with empty slots
  double memory_bytes = 0;   // bytes that a token reads from memory
  double disk_bytes = 0;     // bytes that a token reads from the file, at hit_rate
  Bandwidths bandwidths{};
  std::optional<StepTimes> step_times{};  // on a device with memory of its own
  std::string unknown{};                  // why the speed is not known, unless the disk's bandwidth is missing
  // With all that a token reads in the processor's cache, which a quiet machine comes near; 0: it finds no room there.
  double cached_tokens_per_second = 0;
  double tokens_per_second = 0, cold_tokens_per_second = 0;  // at hit_rate and at cold_hit_rate; 0: not known
};
inline constexpr uint32_t kColdTokens = 32;
inline constexpr uint32_t kForecastDepth = 256;

// "zipf 1.0, 8 topics of 64 tokens", which is assumed where nothing was recorded.
RoutingTrace assumed_routing(const ExpertRoom& experts);

// Where the disk and the routing come from.
struct ForecastSources {
  std::optional<std::string> routing{};  // a recorded trace; none: assumed
  std::optional<double> disk{};          // bytes a second; none: measured on the model's file
  bool header_only = false;              // there is no file to measure with
  uint32_t depth = kForecastDepth;       // tokens before the one that is foreseen
};
struct Foresight {
  MemoryPlan plan;
  Forecast forecast;
};
// Plans a model and measures the machine, which takes a second. The reserve was measured before.
Result<Foresight> foresee(const Model& model, const WeightFiles& files, Machine& machine, EngineOptions options,
                          const ForecastSources& sources);

struct Measured {
  Bandwidths bandwidths{};
  std::optional<StepTimes> step_times{};
};
// `facts`: of the planned program. An error where the recorded trace is of another model.
Result<Forecast> forecast(const MemoryPlan& plan, const CostFacts& facts, const Measured& measured,
                          const ForecastSources& sources);

}  // namespace sluice
