// Parity cases of the gradients that treat each row by itself.
#include <cmath>

#include "graph/cases.h"

namespace sluice {
namespace {

// Appends `op` with a new value at `result`.
template <class O>
Value with(CaseBuilder& c, O op, ValueId O::* result) {
  const Value made = c.recorder().new_value(op.result(c.recorder().program()));
  op.*result = made.id;
  c.recorder().record(op);
  return made;
}

OpCase norm_case(uint32_t heads, uint32_t width, bool mean, bool weighted, Fill fill = {}) {
  CaseBuilder c(
      cat(heads, " heads of ", width, mean ? ", rms" : ", l2", weighted ? ", weight" : "", ", inputs to ", fill.high));
  NormBackward op{.mean = mean};
  op.x = c.input(width, heads, fill).id;
  if (weighted) op.weight = c.weight({.columns = width}, Format::bf16, {.low = 0.5f, .high = 2.0f}).id;
  op.d_out = c.input(width, heads).id;
  c.output(with(c, op, &NormBackward::d_x));
  c.row_steps(width == 33 ? kRowCounts : kFewRows);
  return c.done();
}

RopeDecl turning(uint32_t pairs, Pairing pairing) {
  RopeDecl rope{.pairing = pairing};
  for (uint32_t i = 0; i < pairs; ++i)
    rope.inverse_frequencies.push_back(std::pow(1e4f, -static_cast<float>(i) / static_cast<float>(pairs)));
  return rope;
}

OpCase rope_case(uint32_t heads, uint32_t width, uint32_t pairs, Pairing pairing, uint32_t first) {
  CaseBuilder c(
      cat(heads, " heads of ", width, ", ", pairs, " pairs from ", first, ", pairing ", static_cast<int>(pairing)));
  const Value d_out = c.input(width, heads), few = gather(d_out, c.wanted());
  const RopeId table = c.recorder().rope_table(turning(pairs, pairing));
  c.output(with(c, RopeBackward{.d_out = d_out.id, .table = table, .first = first}, &RopeBackward::d_x));
  c.output(with(c, RopeBackward{.d_out = few.id, .table = table, .first = first}, &RopeBackward::d_x));
  c.row_steps({1, 0, 17});
  c.step({{.sequence = 1, .position = 1000, .rows = 3}, {.sequence = 0, .position = 131071, .rows = 1}}, {1, 3});
  return c.done();
}

struct RouteCase {
  const char* name;
  uint32_t experts, k;
  Scoring scoring = Scoring::softmax;
  bool normalise = true;
  bool scaled = false;
  float largest = 4;
};

OpCase route_case(const RouteCase& one) {
  CaseBuilder c(cat(one.name, ", ", one.k, " of ", one.experts));
  RouteBackward op{.scoring = one.scoring, .normalise = one.normalise, .scale = 2.5f};
  op.logits = c.input(one.experts, 1, {.low = -one.largest, .high = one.largest}).id;
  op.index = c.integers(one.k, {.low = 0, .high = static_cast<float>(one.experts - 1), .distinct = true}).id;
  op.d_weight = c.input(one.k).id;
  if (one.scaled) op.per_expert_scale = c.weight({.columns = one.experts}, Format::bf16, {.low = 0.5f}).id;
  c.output(with(c, op, &RouteBackward::d_logits));
  c.row_steps(kFewRows);
  return c.done();
}

OpCase spread_case(uint32_t heads, uint32_t width, bool shared) {
  CaseBuilder c(cat(heads, " heads of ", width, shared ? ", shares" : ""));
  Spread op{.heads = heads, .factor = 0.5f};
  op.x = c.input(width).id;
  if (shared) op.shares = c.input(heads).id;
  c.output(with(c, op, &Spread::out));
  c.row_steps(kFewRows);
  return c.done();
}

}  // namespace

std::vector<OpCase> NormBackward::cases() {
  std::vector<OpCase> cases;
  for (const uint32_t width : kWidths) {
    if (width > 1) cases.push_back(norm_case(1, width, true, true));
    if (width > 1) cases.push_back(norm_case(3, width, false, false));
  }
  cases.push_back(norm_case(2, 50, true, false, {.low = -1e-3f, .high = 1e-3f}));  // where eps decides
  cases.push_back(norm_case(2, 50, false, true, {.low = -50, .high = 50}));
  return cases;
}

std::vector<OpCase> ActivationBackward::cases() {
  std::vector<OpCase> cases;
  for (const ActivationKind kind : {ActivationKind::gelu_tanh, ActivationKind::silu, ActivationKind::sigmoid})
    for (const float largest : {4.0f, 60.0f}) {
      CaseBuilder c(cat("kind ", static_cast<int>(kind), ", inputs to ", largest));
      ActivationBackward op{.kind = kind};
      op.x = c.input(33, 2, {.low = -largest, .high = largest}).id;
      op.d_out = c.input(33, 2).id;
      c.output(with(c, op, &ActivationBackward::d_x));
      c.row_steps(kFewRows);
      cases.push_back(c.done());
    }
  return cases;
}

std::vector<OpCase> RopeBackward::cases() {
  return {rope_case(3, 34, 11, Pairing::halves, 0), rope_case(1, 64, 16, Pairing::adjacent, 32),
          rope_case(2, 33, 8, Pairing::adjacent_to_halves, 5), rope_case(2, 100, 50, Pairing::halves, 0)};
}

std::vector<OpCase> Spread::cases() {
  return {spread_case(1, 7, false), spread_case(4, 33, true), spread_case(8, 64, false)};
}

std::vector<OpCase> Dots::cases() {
  std::vector<OpCase> cases;
  for (const uint32_t width : kWidths) {
    CaseBuilder c(cat("5 heads of ", width));
    const Value a = c.input(width, 5), b = c.input(width);
    c.output(with(c, Dots{.a = a.id, .b = b.id, .factor = 2.0f}, &Dots::out));
    c.row_steps(kFewRows);
    cases.push_back(c.done());
  }
  return cases;
}

std::vector<OpCase> SliceBackward::cases() {
  std::vector<OpCase> cases;
  for (const SliceBackward& one : {SliceBackward{.first_head = 0, .heads = 3},
                                   {.first_head = 2, .heads = 7},
                                   {.first_head = 1, .stride = 2, .heads = 6}}) {
    CaseBuilder c(cat("3 heads from ", one.first_head, " by ", one.stride, " of ", one.heads));
    SliceBackward op = one;
    op.d_out = c.input(33, 3).id;
    c.output(with(c, op, &SliceBackward::d_x));
    c.row_steps(kFewRows);
    cases.push_back(c.done());
  }
  return cases;
}

std::vector<OpCase> GatherBackward::cases() {
  CaseBuilder c("wanted rows");
  const Value x = c.input(20, 2), few = gather(x, c.wanted());
  const ValueId index = c.recorder().program().inputs.back().value;
  c.output(with(c, GatherBackward{.d_out = few.id, .index = index}, &GatherBackward::d_x));
  c.whole_runs();
  c.step({{.rows = 5}}, {0, 3, 4});
  c.step({{.sequence = 1, .rows = 3}, {.sequence = 0, .rows = 17}}, {2, 3, 11});
  c.step({}, {});
  return {c.done()};
}

std::vector<OpCase> Join::cases() {
  CaseBuilder c("3 heads of 20 and 7");
  const Value own = c.input(20, 3), shared = c.input(7);
  c.output(with(c, Join{.own = own.id, .shared = shared.id}, &Join::out));
  c.row_steps(kFewRows);
  return {c.done()};
}

std::vector<OpCase> JoinBackward::cases() {
  CaseBuilder c("3 heads of 20 and 7");
  Recorder& r = c.recorder();
  const Value d_out = c.input(27, 3), d_own = r.new_value({.heads = 3, .width = 20}),
              d_shared = r.new_value({.width = 7});
  r.record(JoinBackward{.d_out = d_out.id, .d_own = d_own.id, .d_shared = d_shared.id});
  c.output(d_own);
  c.output(d_shared);
  c.row_steps(kFewRows);
  return {c.done()};
}

std::vector<OpCase> RouteBackward::cases() {
  std::vector<OpCase> cases;
  for (const RouteCase& one : {
           RouteCase{"all experts", 7, 7},
           {"few, scaled", 8, 2, Scoring::softmax, true, true},
           {"not normalised", 33, 3, Scoring::softmax, false, true},
           {"sigmoid", 64, 8, Scoring::sigmoid},
           {"sigmoid, not normalised", 40, 4, Scoring::sigmoid, false, true},
           {"large", 16, 4, Scoring::softmax, true, false, 30},
       })
    cases.push_back(route_case(one));
  return cases;
}

}  // namespace sluice
