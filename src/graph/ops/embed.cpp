#include "graph/ops/embed.h"

#include "graph/op_check.h"

namespace sluice {

ValueType Embed::result(const Program& program) const {
  return {.extent = type_of(program, ids).extent, .width = shape_of(program, weight).columns};
}

Status Embed::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  check.value("ids", ids, Element::i32);
  check.columns("ids", ids, 1, "one id a row");
  const WeightShape table = check.weight("weight", weight);
  check.want(table.experts == 1, "weight is ", describe(table), ": want one matrix");
  check.finite("scale", scale);
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice
