#include "graph/ops/norm.h"

#include "graph/op_check.h"

namespace sluice {

ValueType RmsNorm::result(const Program& program) const { return type_of(program, x); }

Status RmsNorm::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  if (weight != kNone) check.matrix("weight", weight, 1, 1, in.width);
  check.positive("eps", eps);
  check.type("out", out, result(program));
  return check.status();
}

ValueType L2Norm::result(const Program& program) const { return type_of(program, x); }

Status L2Norm::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  check.value("x", x);
  check.positive("eps", eps);
  check.type("out", out, result(program));
  return check.status();
}

ValueType LayerNorm::result(const Program& program) const { return type_of(program, x); }

Status LayerNorm::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  if (weight != kNone) check.matrix("weight", weight, 1, 1, in.width);
  if (bias != kNone) check.matrix("bias", bias, 1, 1, in.width);
  check.positive("eps", eps);
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice
