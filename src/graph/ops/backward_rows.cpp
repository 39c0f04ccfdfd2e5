#include "graph/ops/backward_rows.h"

#include <algorithm>

#include "graph/op_check.h"
#include "graph/ops/attention.h"
#include "graph/ops/select.h"

namespace sluice {

ValueType NormBackward::result(const Program& program) const { return type_of(program, x); }

Status NormBackward::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  if (weight != kNone) check.matrix("weight", weight, 1, 1, in.width);
  check.positive("eps", eps);
  check.type("d_out", d_out, in);
  check.type("d_x", d_x, in);
  return check.status();
}

ValueType ActivationBackward::result(const Program& program) const { return type_of(program, x); }

Status ActivationBackward::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  check.want(kind != ActivationKind::relu && kind != ActivationKind::gelu,
             "kind is one of towers: want gelu_tanh, silu or sigmoid");
  check.type("d_out", d_out, in);
  check.type("d_x", d_x, in);
  return check.status();
}

ValueType RopeBackward::result(const Program& program) const { return type_of(program, d_out); }

Status RopeBackward::check(const Program& program) const {
  return Rope{.x = d_out, .table = table, .first = first, .out = d_x}.check(program);
}

ValueType Spread::result(const Program& program) const {
  const ValueType in = type_of(program, x);
  return {.extent = in.extent, .heads = heads, .width = in.width};
}

Status Spread::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  check.want(in.heads == 1, "x is ", describe(in), ": want one head");
  check.want(heads > 0, "heads are none: want one or more");
  if (shares != kNone) check.type("shares", shares, {.extent = in.extent, .width = heads});
  check.finite("factor", factor);
  check.type("out", out, result(program));
  return check.status();
}

ValueType Dots::result(const Program& program) const {
  const ValueType in = type_of(program, a);
  return {.extent = in.extent, .width = in.heads};
}

Status Dots::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("a", a);
  check.type("b", b, {.extent = in.extent, .width = in.width});
  check.finite("factor", factor);
  check.type("out", out, result(program));
  return check.status();
}

ValueType SliceBackward::result(const Program& program) const {
  ValueType type = type_of(program, d_out);
  type.heads = heads;
  return type;
}

Status SliceBackward::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType part = check.value("d_out", d_out);
  const uint64_t end = first_head + uint64_t{stride} * (std::max(part.heads, 1u) - 1) + 1;
  check.want(stride > 0 && end <= heads, "heads ", first_head, " to ", end, ": want a part of ", heads);
  check.type("d_x", d_x, result(program));
  return check.status();
}

ValueType GatherBackward::result(const Program& program) const {
  ValueType type = type_of(program, d_out);
  type.extent = {};
  return type;
}

Status GatherBackward::check(const Program& program) const {
  return Gather{.x = d_x, .index = index, .out = d_out}.check(program);
}

ValueType Join::result(const Program& program) const {
  ValueType type = type_of(program, own);
  type.width += type_of(program, shared).width;
  return type;
}

Status Join::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("own", own), other = check.value("shared", shared);
  check.want(other.heads == 1 && other.extent == in.extent, "shared is ", describe(other), ": want the rows of own, ",
             describe(in));
  check.type("out", out, result(program));
  return check.status();
}

Status JoinBackward::check(const Program& program) const {
  return Join{.own = d_own, .shared = d_shared, .out = d_out}.check(program);
}

ValueType RouteBackward::result(const Program& program) const { return type_of(program, logits); }

Status RouteBackward::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("logits", logits);
  check.want(in.heads == 1, "logits is ", describe(in), ": want one head");
  const uint32_t k = check.value("index", index, Element::i32).width;
  check.want(k <= in.width, "index has ", k, " columns: want at most the ", in.width, " of logits");
  check.type("index", index, {.extent = in.extent, .width = k, .element = Element::i32});
  check.type("d_weight", d_weight, {.extent = in.extent, .width = k});
  if (per_expert_scale != kNone) check.matrix("per_expert_scale", per_expert_scale, 1, 1, in.width);
  check.finite("scale", scale);
  check.type("d_logits", d_logits, in);
  return check.status();
}

}  // namespace sluice
