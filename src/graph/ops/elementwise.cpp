#include "graph/ops/elementwise.h"

#include "graph/op_check.h"

namespace sluice {
namespace {

// out = f(x), or f of two values of one type.
Status check_like(OpCheck& check, const char* first, ValueId x, const char* second, ValueId y, ValueId out) {
  const ValueType in = check.value(first, x);
  if (second != nullptr) check.type(second, y, in);
  check.type("out", out, in);
  return check.status();
}

}  // namespace

ValueType Add::result(const Program& program) const { return type_of(program, a); }
Status Add::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  return check_like(check, "a", a, "b", b, out);
}

ValueType AddBias::result(const Program& program) const { return type_of(program, x); }
Status AddBias::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  check.matrix("bias", bias, 1, 1, in.columns());
  return check_like(check, "x", x, nullptr, kNone, out);
}

ValueType Mul::result(const Program& program) const { return type_of(program, a); }
Status Mul::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  return check_like(check, "a", a, "b", b, out);
}

ValueType Scale::result(const Program& program) const { return type_of(program, x); }
Status Scale::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  if (weight != kNone) {
    const WeightShape shape = check.weight("weight", weight);
    check.want(shape.experts == 1 && shape.rows == 1 && (shape.columns == 1 || shape.columns == in.columns()),
               "weight is ", describe(shape), ": want [1, 1] or [1, ", in.columns(), "]");
  }
  check.finite("factor", factor);
  return check_like(check, "x", x, nullptr, kNone, out);
}

ValueType Clamp::result(const Program& program) const { return type_of(program, x); }
Status Clamp::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  check.matrix("low", low, 1, 1, 1);
  check.matrix("high", high, 1, 1, 1);
  return check_like(check, "x", x, nullptr, kNone, out);
}

ValueType Softcap::result(const Program& program) const { return type_of(program, x); }
Status Softcap::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  check.positive("cap", cap);
  return check_like(check, "x", x, nullptr, kNone, out);
}

ValueType Activation::result(const Program& program) const { return type_of(program, x); }
Status Activation::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  return check_like(check, "x", x, nullptr, kNone, out);
}

ValueType GatedActivation::result(const Program& program) const { return type_of(program, up); }
Status GatedActivation::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("gate", gate), factor = check.value("up", up);
  const bool one_column = in == ValueType{.extent = factor.extent, .width = 1};
  if (!one_column) check.type("up", up, in);
  check.type("out", out, factor);
  return check.status();
}

}  // namespace sluice
