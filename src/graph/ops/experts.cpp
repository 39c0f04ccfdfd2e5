#include "graph/ops/experts.h"

#include "graph/op_check.h"

namespace sluice {

ValueType Route::index_result(const Program& program) const {
  return {.extent = type_of(program, logits).extent, .width = k, .element = Element::i32};
}

ValueType Route::weight_result(const Program& program) const {
  return {.extent = type_of(program, logits).extent, .width = k};
}

Status Route::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("logits", logits);
  check.want(in.heads == 1, "logits is ", describe(in), ": want one head");
  check.want(k >= 1 && k <= in.columns(), "k is ", k, ": want 1 to the ", in.columns(), " columns of logits");
  check.finite("scale", scale);
  const bool grouped = groups > 1 && groups_used < groups;
  check.want(groups >= 1 && in.columns() % groups == 0 && groups_used >= 1 && groups_used <= groups, "groups are ",
             groups_used, " of ", groups, ": want at least one, and as many of the ", in.columns(), " experts in each");
  check.want(!grouped || in.columns() / groups >= 2, "groups are ", groups, " of ", in.columns(),
             " experts: want at least two experts in each");
  check.want(!grouped || k <= in.columns() / groups * groups_used, "k is ", k, ": want at most the experts of ",
             groups_used, " groups of ", groups);
  check.want(bias == kNone || scoring == Scoring::sigmoid, "bias stands with softmax: want it with sigmoid");
  if (bias != kNone) check.matrix("bias", bias, 1, 1, in.columns());
  if (per_expert_scale != kNone) check.matrix("per_expert_scale", per_expert_scale, 1, 1, in.columns());
  check.type("index", index, index_result(program));
  check.type("weight", weight, weight_result(program));
  return check.status();
}

ValueType Experts::result(const Program& program) const { return type_of(program, x); }

Status Experts::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  check.want(in.heads == 1, "x is ", describe(in), ": want one head");
  ValueType chosen = check.value("index", index, Element::i32);
  check.want(chosen.heads == 1 && chosen.extent == in.extent, "index is ", describe(chosen), ": want the rows of x, ",
             describe(in));
  chosen.element = Element::f32;
  check.type("weight", weight, chosen);
  const WeightShape shape = check.weight("gate", gate);
  check.want(chosen.width <= shape.experts, "index is ", describe(chosen), ": want at most the ", shape.experts,
             " experts of gate");
  check.matrix("gate", gate, shape.experts, shape.rows, in.width);
  check.matrix("up", up, shape.experts, shape.rows, in.width);
  check.matrix("down", down, shape.experts, in.width, shape.rows);
  for (const auto& [adapter, rows, columns] :
       {std::tuple(adapters.gate(), shape.rows, in.width), std::tuple(adapters.up(), shape.rows, in.width),
        std::tuple(adapters.down(), in.width, shape.rows)})
    adapter.check(check, x, {.experts = shape.experts, .rows = rows, .columns = columns});
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice
