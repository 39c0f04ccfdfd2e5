#include "graph/ops/recurrent.h"

#include "graph/op_check.h"

namespace sluice {

ValueType ShortConv::result(const Program& program) const { return type_of(program, x); }

Status ShortConv::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  check.want(in.extent == Extent{}, "x is ", describe(in), ": want one row for each of the step");
  const uint32_t taps = check.weight("weight", weight).columns;
  check.want(taps >= 2 && taps <= kMaxConvTaps, "weight has ", taps, " columns: want 2 to ", kMaxConvTaps);
  check.matrix("weight", weight, 1, in.columns(), taps);
  check.slot("state", state, 1, taps - 1, in.columns());
  check.next(next, state);
  check.type("out", out, result(program));
  return check.status();
}

ValueType DeltaGates::result(const Program& program) const { return type_of(program, a); }

Status DeltaGates::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("a", a);
  check.type("b", b, in);
  check.matrix("rate", rate, 1, 1, in.columns());
  check.matrix("bias", bias, 1, 1, in.columns());
  check.type("decay", decay, in);
  check.type("beta", beta, in);
  return check.status();
}

ValueType DeltaRule::result(const Program& program) const { return type_of(program, v); }

Status DeltaRule::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType keys = check.value("k", k), values = check.value("v", v);
  check.want(values.extent == Extent{}, "v is ", describe(values), ": want one row for each of the step");
  check.type("k", k, {.heads = keys.heads, .width = keys.width});
  check.type("q", q, keys);
  check.want(values.heads % keys.heads == 0, "v is ", describe(values), ": want a multiple of the ", keys.heads,
             " heads of k");
  check.type("decay", decay, {.width = values.heads});
  check.type("beta", beta, {.width = values.heads});
  check.slot("state", state, values.heads, keys.width, values.width);
  check.finite("scale", scale);
  check.next(next, state);
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice
