#include "app/bench/bench_routing.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "app/bench/bench_runs.h"
#include "base/text.h"
#include "engine/trace.h"

namespace sluice {
namespace {

constexpr uint32_t kTokens = 64;
constexpr std::string_view kChosen = ".topk_index";

// For one layer: how often each expert was chosen, by rank.
std::vector<double> chosen_by(const TracedValue& index, uint32_t experts) {
  std::vector<double> chosen(experts);
  for (const int32_t expert : index.integers)
    chosen[static_cast<size_t>(expert)] += 1.0 / static_cast<double>(index.rows);
  std::sort(chosen.begin(), chosen.end(), std::greater());
  return chosen;
}

uint32_t expert_count(const Program& program) {
  for (const Op& op : program.ops)
    if (const auto* experts = std::get_if<Experts>(&op)) return program.weights[experts->gate].shape.experts;
  return 0;
}

}  // namespace

double RoutingShares::favourites() const {
  const auto eighth = static_cast<std::ptrdiff_t>(std::max<size_t>(1, chosen.size() / 8));
  return std::accumulate(chosen.begin(), chosen.begin() + eighth, 0.0) / used;
}

RoutingShares shares_of(const RoutingTrace& trace) {
  RoutingShares routing{.chosen = std::vector<double>(trace.experts),
                        .used = trace.used,
                        .tokens = static_cast<uint32_t>(trace.tokens())};
  for (uint32_t layer = 0; layer < trace.layers; ++layer) {
    std::vector<double> counts(trace.experts, 1.0);
    for (size_t token = 0; token < trace.tokens(); ++token)
      for (const uint32_t expert : trace.at(token, layer)) counts[expert] += 1.0;
    std::sort(counts.begin(), counts.end(), std::greater());
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0) * trace.layers / trace.used;
    for (size_t rank = 0; rank < counts.size(); ++rank) routing.chosen[rank] += counts[rank] / all;
  }
  return routing;
}

Result<RoutingShares> measure_routing(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic) {
  RoutingShares routing;
  TRY(const Program program, model.record_text());
  const uint32_t experts = expert_count(program);
  if (experts == 0) return routing;
  routing.tokens = kTokens;
  routing.chosen.resize(experts);
  const std::vector<int32_t> tokens = random_tokens(kTokens, model.facts().vocabulary, 0);
  TRY(const Trace traced, trace(model, device, budget, arithmetic, {.tokens = tokens}));
  double layers = 0;
  for (const TracedValue& value : traced) {
    if (!ends_with(value.name, kChosen)) continue;
    const std::vector<double> chosen = chosen_by(value, experts);
    for (size_t rank = 0; rank < experts; ++rank) routing.chosen[rank] += chosen[rank];
    routing.used = static_cast<uint32_t>(value.columns);
    ++layers;
  }
  CHECK(layers > 0);
  for (double& chosen : routing.chosen) chosen /= layers;
  return routing;
}

RoutingTrace recorded_routing(const Meter& meter) {
  const Program& program = *meter.facts().program;
  RoutingTrace trace{.layers = 0, .experts = expert_count(program), .used = 0, .chosen = {}};
  for (const Op& op : program.ops) {
    const auto* const experts = std::get_if<Experts>(&op);
    if (experts == nullptr) continue;
    ++trace.layers;
    trace.used = program.values[experts->index].type.width;
  }
  for (const MeteredStep& step : meter.steps()) {
    const bool one_token = step.token_class == TokenClass::decode && step.work.rows() == 1;
    if (!one_token || step.used.size() != trace.layers) continue;
    for (const ExpertUse& layer : step.used)
      trace.chosen.insert(trace.chosen.end(), layer.experts.begin(), layer.experts.end());
  }
  return trace;
}

}  // namespace sluice
