#include "app/plan/forecast.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/bench/metered_device.h"
#include "app/plan/disk_bandwidth.h"
#include "app/plan/read_bandwidth.h"
#include "app/plan/step_times.h"
#include "base/text.h"
#include "engine/experts/drawn_routing.h"
#include "engine/experts/replacement.h"
#include "engine/experts/replay.h"

namespace sluice {
namespace {

// The share of the read bandwidth that decoding reaches: with packed weights, and with stored ones, which streamed
// experts are (docs/benchmarks.md).
constexpr double kPackedShare = 0.95, kStoredShare = 0.65;
constexpr double kForeseen = 0.65;                                         // of experts read ahead are used
constexpr uint32_t kAssumedTokens = 192;                                   // of which the first half fills the slots
constexpr uint64_t kLeastCached = 1 << 20;                                 // bytes; less is over too soon to measure
constexpr uint64_t kLeastMeasured = 256 << 20, kRead = uint64_t{1} << 30;  // bytes: of a buffer, and through it in all

// Bytes that a token reads: of experts; of ops between a router and its experts, which are computed while experts are
// read; and of all others.
struct TokenBytes {
  double experts = 0, meanwhile = 0, others = 0;
  double all() const { return experts + meanwhile + others; }
};

TokenBytes token_bytes(const CostFacts& facts, uint32_t depth) {
  const StepWork work{.sequences = {{.first_position = depth, .rows = 1}}};
  const Program& program = *facts.program;
  TokenBytes bytes;
  bool chosen = false;
  auto guess = program.guesses.begin();
  for (uint32_t op = 0; op < program.ops.size(); ++op) {
    if (guess != program.guesses.end() && op == guess->first_op) {
      op = guess++->end_op - 1;  // does not pay everywhere
      continue;
    }
    const OpCost cost = op_cost(facts, op, work);
    const bool experts = std::holds_alternative<Experts>(program.ops[op]);
    (experts  ? bytes.experts
     : chosen ? bytes.meanwhile
              : bytes.others) += static_cast<double>(cost.weight_bytes + cost.state_bytes);
    chosen = std::holds_alternative<Route>(program.ops[op]) || (chosen && !experts);
  }
  return bytes;
}

// The seconds of a token. While experts are read, ops before them are computed, then the experts in memory, then each
// expert as it arrives; the last one waits for all reads. If it is faster, most experts are prefetched, some in vain.
double token_seconds(const MemoryPlan& plan, const TokenBytes& bytes, const Bandwidths& bandwidths, double hit_rate) {
  const double stored = kStoredShare * bandwidths.memory;
  const double dense = plan.repack == Repack::never ? stored : kPackedShare * bandwidths.memory;
  const double others = bytes.others / dense;
  const double computing = bytes.meanwhile / dense + bytes.experts / (plan.streams() ? stored : dense);
  const double missed = (1 - hit_rate) * plan.experts.layers * plan.experts.used;
  if (missed <= 0) return others + computing;
  const double reading = missed * static_cast<double>(plan.experts.slot_bytes) / bandwidths.disk;
  const double last = bytes.experts / stored / plan.experts.used;
  const double as_chosen = others + std::max(computing, reading + last);
  const double ahead = others + std::max(computing, (1 - kForeseen) * reading + last);
  return std::min(as_chosen, std::max((2 - kForeseen) * reading, ahead));
}

// The seconds of a token on a device with memory of its own: a step, and the waits of its layers. Each expert is in a
// slot or not independently of the others.
double token_seconds(const MemoryPlan& plan, const StepTimes& played, double hit_rate) {
  const ExpertRoom& experts = plan.experts;
  const double missed = (1 - hit_rate) * experts.used;      // of a layer
  const double any = 1 - std::pow(hit_rate, experts.used);  // how often it lacks one at least
  return played.step_seconds + experts.layers * (any * played.first_seconds + (missed - any) * played.next_seconds);
}

std::unique_ptr<Replacement> replacement_of(const ExpertRoom& experts) {
  return make_replacement(ReplacementKind::next_use, {.layers = experts.layers, .experts = experts.experts});
}

Status check_routing(const RoutingTrace& trace, const ExpertRoom& experts, const std::string& path) {
  if (experts.layers == 0)
    return error(ErrorKind::invalid, path, ": found a trace of experts: want none, since the model has none");
  if (trace.layers == experts.layers && trace.experts == experts.experts && trace.used == experts.used) return {};
  return error(ErrorKind::invalid, path, ": found ", trace.layers, " layers of ", trace.experts, " experts, ",
               trace.used, " a token: want the model's ", experts.layers, " of ", experts.experts, ", ", experts.used);
}

// A small model is measured with a small buffer, because caches hold a part of both.
Result<double> measure_memory(const Model& model, Machine& machine) {
  uint64_t stored = 0;
  for (const StoredTensor& tensor : model.checkpoint().tensors()) stored += tensor.bytes.size();
  const uint64_t most = std::min(std::max(kLeastMeasured, stored), machine.budget.left(Domain::host) / 2);
  TRY(ReadBandwidth memory, ReadBandwidth::open(*machine.pool, machine.budget, most));
  double best = 0;
  for (uint64_t read = 0; read == 0 || read < kRead; read += memory.bytes()) best = std::max(best, memory.measure());
  return best;
}

// Of a buffer as large as what a token reads, read again and again; 0: the last cache does not hold that.
Result<double> measure_cache(double token_bytes, Machine& machine) {
  const auto bytes = static_cast<uint64_t>(token_bytes);
  if (bytes < kLeastCached || bytes > last_cache_bytes()) return 0.0;
  TRY(ReadBandwidth cache, ReadBandwidth::open(*machine.pool, machine.budget, bytes));
  double best = 0;
  for (uint64_t read = 0; read < kRead / 4; read += cache.bytes()) best = std::max(best, cache.measure());
  return best;
}

Result<Bandwidths> measure(const Model& model, const WeightFiles& files, const MemoryPlan& plan,
                           const ForecastSources& sources, Machine& machine) {
  Bandwidths bandwidths;
  if (plan.domain != Domain::host)
    bandwidths.memory = copying_bandwidth(*machine.device);
  else
    TRY_ASSIGN(bandwidths.memory, measure_memory(model, machine));
  if (sources.disk)
    bandwidths.disk = *sources.disk;
  else if (plan.streams() && !sources.header_only)
    TRY_ASSIGN(bandwidths.disk, measure_disk(files.paths, plan.experts.read_bytes / plan.experts.reads));
  return bandwidths;
}

}  // namespace

Result<Foresight> foresee(const Model& model, const WeightFiles& files, Machine& machine, EngineOptions options,
                          const ForecastSources& sources) {
  options.lease_rows = machine.bounds.lease_rows;
  Meter meter;
  const MeteredDevice device(*machine.device, meter);
  TRY(MemoryPlan plan, plan_memory(model, files, device, machine.budget, machine.bound().bytes, options));
  Measured measured;
  TRY(measured.bandwidths, measure(model, files, plan, sources, machine));
  std::string unknown;
  if (plan.domain == Domain::host)
    TRY_ASSIGN(measured.bandwidths.cache, measure_cache(token_bytes(meter.facts(), sources.depth).all(), machine));
  if (plan.domain != Domain::host) {
    Result<StepTimes> step_times = plan.needed() <= plan.limit
                                       ? time_steps_without_weights(plan, files, machine, options, sources)
                                       : error(ErrorKind::out_of_memory, "it does not fit");
    if (step_times)
      measured.step_times = *step_times;
    else
      unknown = step_times.error().text;
  }
  TRY(Forecast foreseen, forecast(plan, meter.facts(), measured, sources));
  foreseen.unknown = std::move(unknown);
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

Result<Forecast> forecast(const MemoryPlan& plan, const CostFacts& facts, const Measured& measured,
                          const ForecastSources& sources) {
  const Bandwidths& bandwidths = measured.bandwidths;
  const std::optional<std::string>& recorded = sources.routing;
  Forecast foreseen{.bandwidths = bandwidths, .step_times = measured.step_times};
  const TokenBytes bytes = token_bytes(facts, sources.depth);
  const ExpertRoom& experts = plan.experts;
  RoutingTrace trace;
  if (recorded) {  // looked at also where no expert is read
    TRY(trace, read_routing(*recorded));
    TRY_STATUS(check_routing(trace, experts, *recorded));
  }
  if (plan.streams()) {
    if (recorded) {
      foreseen.routing = cat("recorded in ", printable(*recorded));
    } else {
      trace = assumed_routing(experts);
      foreseen.routing = "assumed: zipf 1.0, 8 topics of 64 tokens";
    }
    const auto slots = static_cast<uint32_t>(std::max<uint64_t>(plan.slots(), experts.used));
    foreseen.hit_rate = replay(trace, slots, *replacement_of(experts), trace.tokens() / 2).hit_rate();
    trace.chosen.resize(std::min<size_t>(trace.tokens(), kColdTokens) * trace.layers * trace.used);
    foreseen.cold_hit_rate = replay(trace, slots, *replacement_of(experts), 0).hit_rate();
  }
  const double missed = 1 - foreseen.hit_rate;
  foreseen.memory_bytes = bytes.all();
  foreseen.disk_bytes = missed * static_cast<double>(uint64_t{experts.layers} * experts.used * experts.read_bytes);
  const bool on_host = plan.domain == Domain::host;
  const std::optional<StepTimes>& played = measured.step_times;
  const bool timed = on_host ? bandwidths.memory > 0 : played.has_value();
  const bool read = on_host ? bandwidths.disk > 0 : played && played->reads;
  if (!timed || (foreseen.disk_bytes > 0 && !read)) return foreseen;
  const auto tokens_per_second = [&](double hit_rate) {
    return 1 / (on_host ? token_seconds(plan, bytes, bandwidths, hit_rate) : token_seconds(plan, *played, hit_rate));
  };
  foreseen.tokens_per_second = tokens_per_second(foreseen.hit_rate);
  if (on_host && !plan.streams() && bandwidths.cache > bandwidths.memory)
    foreseen.cached_tokens_per_second = 1 / token_seconds(plan, bytes, {.memory = bandwidths.cache}, 1);
  foreseen.cold_tokens_per_second = tokens_per_second(foreseen.cold_hit_rate);
  return foreseen;
}

}  // namespace sluice
