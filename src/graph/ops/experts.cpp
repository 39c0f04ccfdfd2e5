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
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice
