// Parity cases of route and experts.
#include "graph/cases.h"

namespace sluice {
namespace {

struct RouteCase {
  const char* name;
  uint32_t experts;
  RouteOptions options;
  Fill fill{};
  bool scaled = false;
  bool biased = false;
};

OpCase route_case(const RouteCase& one) {
  CaseBuilder c(cat(one.name, ", ", one.options.k, " of ", one.experts));
  RouteOptions options = one.options;
  if (one.biased) options.bias = c.weight({.columns = one.experts}, Format::f32, {.low = -0.3f, .high = 0.3f});
  if (one.scaled) options.per_expert_scale = c.weight({.columns = one.experts}, Format::bf16, {.low = 0.5f});
  const Routed routed = route(c.input(one.experts, 1, one.fill), options);
  c.output(routed.index);
  c.output(routed.weight);
  c.row_steps(kRowCounts);
  return c.done();
}

struct ExpertsCase {
  Format format;
  uint32_t experts, k, hidden, width;
  ActivationKind kind = ActivationKind::gelu_tanh;
  std::optional<Format> outward = std::nullopt;  // down's, where it is another
};

OpCase experts_case(const ExpertsCase& one, const CaseAdapters& adapters = {.slots = 0}) {
  CaseBuilder c(cat(adapters.slots == 0 ? "" : cat("adapters of rank ", adapters.rank, ", "), format_name(one.format),
                    ", ", one.k, " of ", one.experts, ", ", one.hidden, " by ", one.width));
  c.adapters(adapters);
  const Value x = c.input(one.hidden, 1, {.low = -2, .high = 2});
  const Routed routed{
      .index = c.integers(one.k, {.low = 0, .high = static_cast<float>(one.experts - 1), .distinct = true}),
      .weight = c.input(one.k, 1, {.low = 0.1f})};
  const WeightShape inward{.experts = one.experts, .rows = one.width, .columns = one.hidden};
  const WeightShape outward{.experts = one.experts, .rows = one.hidden, .columns = one.width};
  const Weight gate = c.weight(inward, one.format);
  const Weight up = c.weight(inward, one.format);
  c.output(experts(x, routed, gate, up, c.weight(outward, one.outward.value_or(one.format)), one.kind));
  c.row_steps(one.hidden > 100 ? std::vector<uint32_t>{1, 17} : std::vector<uint32_t>{1, 0, 3, 17, 65, 130});
  return c.done();
}

}  // namespace

std::vector<OpCase> Route::cases() {
  std::vector<OpCase> cases;
  for (const RouteCase& one : {
           RouteCase{"one expert", 1, {.k = 1}},
           {"all experts", 7, {.k = 7}},
           {"few", 8, {.k = 2}, {.low = -4, .high = 4}, true},
           {"odd", 33, {.k = 3}, {.low = -4, .high = 4}},
           {"many", 128, {.k = 8}, {.low = -4, .high = 4}, true},
           {"not normalised", 100, {.k = 4, .normalise = false}, {.low = -4, .high = 4}, true},
           {"ties", 16, {.k = 4}, {.levels = 3}},
           {"all alike", 16, {.k = 4}, {.low = 1}},
           {"large", 33, {.k = 5}, {.low = -1e4f, .high = 1e4f}},
           {"in groups", 24, {.k = 5, .groups = 6, .groups_used = 2}, {.low = -4, .high = 4}},
           {"groups that tie", 16, {.k = 4, .groups = 4, .groups_used = 2}, {.levels = 3}},
           {"sigmoid", 33, {.k = 3, .scoring = Scoring::sigmoid, .scale = 2.5f}, {.low = -4, .high = 4}},
           {"sigmoid, not normalised",
            40,
            {.k = 4, .scoring = Scoring::sigmoid, .normalise = false},
            {.low = -4, .high = 4},
            true,
            true},
           {"sigmoid in groups",
            64,
            {.k = 8, .scoring = Scoring::sigmoid, .scale = 2.5f, .groups = 8, .groups_used = 3},
            {.low = -4, .high = 4},
            false,
            true},
           {"sigmoid, all alike", 16, {.k = 4, .scoring = Scoring::sigmoid, .groups = 4, .groups_used = 2}, {.low = 1}},
           {"as many groups used", 12, {.k = 4, .scoring = Scoring::sigmoid, .groups = 12, .groups_used = 12}},
       })
    cases.push_back(route_case(one));
  return cases;
}

std::vector<OpCase> Experts::cases() {
  std::vector<OpCase> cases;
  for (const ExpertsCase& one : {
           ExpertsCase{Format::f32, 1, 1, 5, 3},
           {Format::f32, 4, 2, 33, 7, ActivationKind::silu},
           {Format::f32, 5, 5, 16, 9, ActivationKind::sigmoid},
           {Format::f16, 8, 2, 33, 50},
           {Format::bf16, 16, 3, 40, 24, ActivationKind::silu},
           {Format::bf16, 40, 8, 64, 32},
           {Format::q8_0, 8, 2, 64, 32},
           {Format::q8_0, 6, 1, 64, 32},
           {Format::q8_0, 16, 4, 96, 64, ActivationKind::silu},
       })
    cases.push_back(experts_case(one));
  for (const Format format : block_formats()) {
    const ExpertsCase one{.format = format,
                          .experts = 3,
                          .k = 2,
                          .hidden = format_info(format).block_elements,
                          .width = 32,
                          .outward = Format::q8_0};
    cases.push_back(experts_case(one));
  }
  const CaseAdapters halves = {.slots = 2, .rank = 16, .a = Format::f16, .b = Format::bf16};
  cases.push_back(experts_case({Format::f32, 5, 2, 33, 7, ActivationKind::silu}, {.rank = 3}));
  cases.push_back(experts_case({Format::bf16, 8, 3, 40, 24}, halves));
  cases.push_back(experts_case({Format::q8_0, 8, 2, 64, 32}, halves));
  cases.push_back(experts_case({Format::f16, 4, 4, 33, 50}, {.rank = 4, .weights = {"w3"}}));
  return cases;
}

}  // namespace sluice
