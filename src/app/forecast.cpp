#include "app/forecast.h"

#include <algorithm>
#include <utility>

#include "app/disk_bandwidth.h"
#include "app/metered_device.h"
#include "app/read_bandwidth.h"
#include "base/text.h"
#include "engine/drawn_routing.h"
#include "engine/replay.h"

namespace sluice {
namespace {

// What decoding makes of the bandwidth of plain reading (docs/benchmarks.md).
constexpr double kUsedBandwidth = 0.65;
constexpr uint64_t kReadsOfExpert = 3;    // gate, up and down lie apart in most files
constexpr uint32_t kDepth = 256;          // tokens before the one that is foreseen
constexpr uint32_t kAssumedTokens = 192;  // of which the first half fills the slots

// Bytes that a token reads: of experts, and of all else.
struct TokenBytes {
  double experts = 0, others = 0;
};

TokenBytes token_bytes(const CostFacts& facts) {
  const StepWork work{.sequences = {{.first_position = kDepth, .rows = 1}}};
  TokenBytes bytes;
  for (uint32_t op = 0; op < facts.program->ops.size(); ++op) {
    const OpCost cost = op_cost(facts, op, work);
    const bool experts = std::holds_alternative<Experts>(facts.program->ops[op]);
    (experts ? bytes.experts : bytes.others) += static_cast<double>(cost.weight_bytes + cost.state_bytes);
  }
  return bytes;
}

Status check_routing(const RoutingTrace& trace, const ExpertRoom& experts, const std::string& path) {
  if (trace.layers == experts.layers && trace.experts == experts.experts && trace.used == experts.used) {
    return {};
  }
  return error(ErrorKind::invalid, path, ": found ", trace.layers, " layers of ", trace.experts, " experts, ",
               trace.used, " a token: want the model's ", experts.layers, " of ", experts.experts, ", ", experts.used);
}

Result<Bandwidths> measure(const WeightFiles& files, const MemoryPlan& plan, const ForecastSources& sources,
                           Machine& machine) {
  Bandwidths bandwidths;
  {
    TRY(ReadBandwidth memory,
        ReadBandwidth::open(*machine.pool, machine.budget, machine.budget.left(Domain::host) / 2));
    bandwidths.memory = std::max(memory.measure(), memory.measure());
  }
  if (sources.disk) {
    bandwidths.disk = *sources.disk;
  } else if (plan.streams() && !sources.header_only) {
    TRY(bandwidths.disk, measure_disk(files.paths, plan.experts.slot_bytes / kReadsOfExpert));
  }
  return bandwidths;
}

}  // namespace

Result<Foresight> foresee(const Model& model, const WeightFiles& files, Machine& machine, const EngineOptions& options,
                          const ForecastSources& sources) {
  Meter meter;
  const MeteredDevice device(*machine.device, meter);
  TRY(MemoryPlan plan, plan_memory(model, files, device, machine.budget, machine.memory_limit, options));
  TRY(const Bandwidths bandwidths, measure(files, plan, sources, machine));
  TRY(Forecast foreseen, forecast(plan, meter.facts(), bandwidths, sources.routing));
  return Foresight{std::move(plan), std::move(foreseen)};
}

RoutingTrace assumed_routing(const ExpertRoom& experts) {
  return draw_routing({.layers = experts.layers,
                       .experts = experts.experts,
                       .used = experts.used,
                       .tokens = kAssumedTokens,
                       .exponent = 1,
                       .topics = 8,
                       .topic_tokens = 64,
                       .seed = 1});
}

Result<Forecast> forecast(const MemoryPlan& plan, const CostFacts& facts, const Bandwidths& bandwidths,
                          const std::optional<std::string>& recorded) {
  Forecast foreseen;
  foreseen.bandwidths = bandwidths;
  const TokenBytes bytes = token_bytes(facts);
  const ExpertRoom& experts = plan.experts;
  if (plan.streams()) {
    RoutingTrace trace;
    if (recorded) {
      TRY(trace, read_routing(*recorded));
      TRY_STATUS(check_routing(trace, experts, *recorded));
      foreseen.routing = cat("recorded in ", printable(*recorded));
    } else {
      trace = assumed_routing(experts);
      foreseen.routing = "assumed: zipf 1.0, 8 topics of 64 tokens";
    }
    const auto slots = static_cast<uint32_t>(std::max<uint64_t>(plan.slots(), experts.used));
    const auto replacement =
        make_replacement(ReplacementKind::next_use, {.layers = experts.layers, .experts = experts.experts});
    foreseen.hit_rate = replay(trace, slots, *replacement, trace.tokens() / 2).hit_rate();
  }
  const double missed = 1 - foreseen.hit_rate;
  foreseen.memory_bytes = bytes.others + bytes.experts;
  foreseen.disk_bytes = missed * static_cast<double>(uint64_t{experts.layers} * experts.used * experts.slot_bytes);
  if (bandwidths.memory <= 0 || (foreseen.disk_bytes > 0 && bandwidths.disk <= 0)) {
    return foreseen;
  }
  // What lies in memory is computed with while the rest is read; then the rest.
  const double memory = kUsedBandwidth * bandwidths.memory;
  const double reading = foreseen.disk_bytes > 0 ? foreseen.disk_bytes / bandwidths.disk : 0;
  const double meanwhile = foreseen.hit_rate * bytes.experts / memory;
  const double seconds = bytes.others / memory + std::max(meanwhile, reading) + missed * bytes.experts / memory;
  foreseen.tokens_per_second = 1 / seconds;
  return foreseen;
}

}  // namespace sluice
