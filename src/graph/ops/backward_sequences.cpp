#include "graph/ops/backward_sequences.h"

#include <utility>

#include "graph/op_check.h"

namespace sluice {

Attention AttentionBackward::forward() const {
  return {.q = q,
          .k = k,
          .v = v,
          .first = first,
          .last = last,
          .scale = scale,
          .window = window,
          .softcap = softcap,
          .out = d_out};
}

Status AttentionBackward::check(const Program& program) const {
  TRY_STATUS(forward().check(program));
  OpCheck check(program, kDoc.name);
  check.step_rows("q", q);
  check.type("d_q", d_q, type_of(program, q));
  check.type("d_k", d_k, type_of(program, k));
  check.type("d_v", d_v, type_of(program, v));
  return check.status();
}

ValueType ShortConvBackward::result(const Program& program) const { return type_of(program, x); }

Status ShortConvBackward::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  check.want(in.extent == Extent{}, "x is ", describe(in), ": want one row for each of the step");
  const uint32_t taps = check.weight("weight", weight).columns;
  check.want(taps >= 2 && taps <= kMaxConvTaps, "weight has ", taps, " columns: want 2 to ", kMaxConvTaps);
  check.matrix("weight", weight, 1, in.columns(), taps);
  check.type("d_out", d_out, in);
  check.type("d_x", d_x, in);
  return check.status();
}

Status DeltaGatesBackward::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("a", a);
  for (const auto& [name, id] :
       {std::pair{"b", b}, {"d_decay", d_decay}, {"d_beta", d_beta}, {"d_a", d_a}, {"d_b", d_b}})
    check.type(name, id, in);
  check.matrix("rate", rate, 1, 1, in.columns());
  check.matrix("bias", bias, 1, 1, in.columns());
  return check.status();
}

Status DeltaRuleBackward::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType keys = check.value("k", k), values = check.value("v", v);
  check.want(values.extent == Extent{}, "v is ", describe(values), ": want one row for each of the step");
  check.want(values.heads % keys.heads == 0, "v is ", describe(values), ": want a multiple of the ", keys.heads,
             " heads of k");
  const ValueType key{.heads = keys.heads, .width = keys.width}, gate{.width = values.heads};
  for (const auto& [name, id] : {std::pair{"k", k}, {"q", q}, {"d_q", d_q}, {"d_k", d_k}}) check.type(name, id, key);
  for (const auto& [name, id] : {std::pair{"d_out", d_out}, {"d_v", d_v}}) check.type(name, id, values);
  for (const auto& [name, id] : {std::pair{"decay", decay}, {"beta", beta}, {"d_decay", d_decay}, {"d_beta", d_beta}})
    check.type(name, id, gate);
  check.finite("scale", scale);
  return check.status();
}

}  // namespace sluice
