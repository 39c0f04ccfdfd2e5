#include "graph/ops/select.h"

#include <algorithm>

#include "graph/op_check.h"

namespace sluice {

ValueType Gather::result(const Program& program) const {
  ValueType type = type_of(program, x);
  type.extent = {.symbol = Symbol::wanted};
  return type;
}

Status Gather::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  check.want(in.extent == Extent{}, "x is ", describe(in), ": want one row for each of the step");
  check.type("index", index, {.extent = {.symbol = Symbol::wanted}, .width = 1, .element = Element::i32});
  const int wanted = wanted_input(program);
  check.want(wanted >= 0 && program.inputs[static_cast<size_t>(wanted)].value == index,
             "index is some value: want the program's input wanted");
  check.type("out", out, result(program));
  return check.status();
}

ValueType Slice::result(const Program& program) const {
  ValueType type = type_of(program, x);
  type.heads = heads;
  return type;
}

Status Slice::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  const uint64_t end = first_head + uint64_t{stride} * (std::max(heads, 1u) - 1) + 1;
  check.want(heads > 0 && stride > 0 && end <= in.heads, "heads ", first_head, " to ", end, " of ", describe(in),
             ": want a part of its ", in.heads);
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice
