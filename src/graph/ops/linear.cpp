#include "graph/ops/linear.h"

#include "graph/op_check.h"

namespace sluice {

ValueType Linear::result(const Program& program) const {
  return {.extent = type_of(program, x).extent, .width = shape_of(program, weight).rows};
}

Status Linear::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  check.value("x", x);
  const WeightShape matrix = check.weight("weight", weight);
  if (weight < program.weights.size()) {
    const std::string& name = program.weights[weight].name;
    check.want(matrix.experts == 1, "weight ", name, " is ", describe(matrix), ": want one matrix");
    check.columns("x", x, matrix.columns, cat("weight ", name));
    adapter.check(check, x, matrix);
  }
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice
