#include "graph/ops/select.h"

#include <algorithm>

#include "graph/op_check.h"

namespace sluice {

ValueType Gather::result(const Program& program) const {
  ValueType type = type_of(program, x);
  const ValueType by = type_of(program, index);
  type.extent = by.extent;
  if (by.width == 1) return type;
  return {.extent = by.extent, .heads = by.width, .width = static_cast<uint32_t>(type.columns())};
}

Status Gather::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  if (type_of(program, index).extent.symbol == Symbol::wanted) {
    check.want(in.extent == Extent{}, "x is ", describe(in), ": want one row for each of the step");
    check.type("index", index, {.extent = {.symbol = Symbol::wanted}, .width = 1, .element = Element::i32});
    const int wanted = wanted_input(program);
    check.want(wanted >= 0 && program.inputs[static_cast<size_t>(wanted)].value == index,
               "index is some value: want the program's input wanted");
  } else {
    const ValueType by = check.value("index", index, Element::i32);
    check.want(by.heads == 1, "index is ", describe(by), ": want one head");
  }
  check.type("out", out, result(program));
  return check.status();
}

ValueType Scatter::result(const Program& program) const { return type_of(program, x); }

Status Scatter::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  check.type("index", index, {.extent = in.extent, .width = 1, .element = Element::i32});
  check.value("rows", rows);
  check.columns("rows", rows, in.columns(), "x");
  check.type("out", out, result(program));
  return check.status();
}

ValueType Pool::result(const Program& program) const {
  ValueType type = type_of(program, x);
  type.heads = 1;
  return type;
}

Status Pool::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  if (shares != kNone) {
    const ValueType found = check.value("shares", shares);
    check.want(found.extent == in.extent && found.columns() == in.heads, "shares is ", describe(found),
               ": want one for each head of ", describe(in));
  }
  check.finite("factor", factor);
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
