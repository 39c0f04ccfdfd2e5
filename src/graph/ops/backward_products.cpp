#include "graph/ops/backward_products.h"

#include "graph/op_check.h"

namespace sluice {
namespace {

Extent by_choice_extent(const Extent& extent, uint32_t choices) {
  return {.symbol = extent.symbol, .ratio = extent.ratio * choices};
}

// The choices of a row.
uint32_t choices_of(const Program& program, ValueId index, uint32_t experts) {
  return index == kNone ? experts : type_of(program, index).width;
}

// The extent E of rows that choose, from a value that has a row for each choice.
Extent choosing(const Program& program, const Extent& by_choice, ValueId index, uint32_t choices) {
  if (index != kNone) return type_of(program, index).extent;
  return {.symbol = by_choice.symbol, .ratio = choices == 0 ? 1 : by_choice.ratio / choices};
}

void check_index(OpCheck& check, const Program& program, ValueId index, const Extent& rows) {
  if (index == kNone) return;
  check.type("index", index, {.extent = rows, .width = type_of(program, index).width, .element = Element::i32});
}

}  // namespace

ValueType LinearTransposed::result(const Program& program) const {
  return {.extent = type_of(program, x).extent, .width = shape_of(program, weight).columns};
}

Status LinearTransposed::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  check.value("x", x);
  const WeightShape matrix = check.weight("weight", weight);
  check.want(matrix.experts == 1, "weight is ", describe(matrix), ": want one matrix");
  check.columns("x", x, matrix.rows, "rows of weight");
  check.type("out", out, result(program));
  return check.status();
}

ValueType OuterSum::result(const Program& program) const {
  return {.extent = {.symbol = Symbol::one, .ratio = static_cast<uint32_t>(type_of(program, left).columns())},
          .width = static_cast<uint32_t>(type_of(program, right).columns())};
}

Status OuterSum::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType rows = check.value("left", left), found = check.value("right", right);
  check.want(found.extent == rows.extent, "right is ", describe(found), ": want the rows of left, ", describe(rows));
  check.finite("factor", factor);
  check.type("out", out, result(program));
  return check.status();
}

ValueType ExpertLinear::result(const Program& program) const {
  const WeightShape matrix = shape_of(program, weight);
  const ValueType in = type_of(program, x);
  const Extent extent = by_choice ? in.extent : by_choice_extent(in.extent, choices_of(program, index, matrix.experts));
  return {.extent = extent, .width = matrix.rows};
}

Status ExpertLinear::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  const WeightShape matrix = check.weight("weight", weight);
  check.columns("x", x, matrix.columns, "weight");
  const uint32_t choices = choices_of(program, index, matrix.experts);
  check.want(choices <= matrix.experts, "index has ", choices, " columns: want at most the ", matrix.experts,
             " experts of weight");
  const Extent rows = by_choice ? choosing(program, in.extent, index, choices) : in.extent;
  check.want(!by_choice || by_choice_extent(rows, choices) == in.extent, "x is ", describe(in), ": want ", choices,
             " rows for each of index");
  check_index(check, program, index, rows);
  check.type("out", out, result(program));
  return check.status();
}

ValueType ExpertLinearTransposed::result(const Program& program) const {
  return {.extent = type_of(program, x).extent, .width = shape_of(program, weight).columns};
}

Status ExpertLinearTransposed::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  const WeightShape matrix = check.weight("weight", weight);
  check.columns("x", x, matrix.rows, "rows of weight");
  const uint32_t choices = choices_of(program, index, matrix.experts);
  const Extent rows = choosing(program, in.extent, index, choices);
  check.want(choices <= matrix.experts && by_choice_extent(rows, choices) == in.extent, "x is ", describe(in),
             ": want ", choices, " rows for each of index, at most as many as experts");
  check_index(check, program, index, rows);
  check.type("out", out, result(program));
  return check.status();
}

ValueType ExpertOuterSum::result(const Program& program) const {
  const auto rows = static_cast<uint32_t>(type_of(program, left).columns());
  return {.extent = {.symbol = Symbol::one, .ratio = experts * rows},
          .width = static_cast<uint32_t>(type_of(program, right).columns())};
}

Status ExpertOuterSum::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType of_left = check.value("left", left), of_right = check.value("right", right);
  const uint32_t choices = choices_of(program, index, experts);
  const Extent rows = choosing(program, of_left.extent, index, choices);
  check.want(choices <= experts && by_choice_extent(rows, choices) == of_left.extent, "left is ", describe(of_left),
             ": want ", choices, " rows for each of index, at most as many as experts");
  check.want(of_right.extent == (by_choice ? of_left.extent : rows), "right is ", describe(of_right), ": want ",
             by_choice ? "the rows of left" : "a row for each of index");
  check_index(check, program, index, rows);
  check.finite("factor", factor);
  check.type("out", out, result(program));
  return check.status();
}

ValueType CrossEntropy::loss_result(const Program& program) const {
  return {.extent = type_of(program, x).extent, .width = 1};
}

ValueType CrossEntropy::d_b_result(const Program& program) const {
  return {.extent = {.symbol = Symbol::one, .ratio = shape_of(program, weight).rows},
          .width = shape_of(program, b).columns};
}

Status CrossEntropy::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  const WeightShape matrix = check.weight("weight", weight);
  check.want(matrix.experts == 1, "weight is ", describe(matrix), ": want one matrix");
  check.columns("x", x, matrix.columns, "weight");
  check.type("target", target, {.extent = in.extent, .width = 1, .element = Element::i32});
  check.type("share", share, {.extent = in.extent, .width = 1});
  check.type("loss", loss, loss_result(program));
  if (has_gradients()) check.type("d_x", d_x, in);
  if (softcap != 0) check.positive("softcap", softcap);
  check.finite("factor", factor);
  const bool adapts = inner != kNone && b != kNone;
  check.want(adapts || (inner == kNone && b == kNone), "an adapter is there in part: want inner and b, or neither");
  const bool wants = adapts && has_gradients();
  check.want(wants == (d_inner != kNone) && wants == (d_b != kNone), "found ", wants ? "no" : "some",
             " gradients of an adapter: want d_inner and d_b ", wants ? "beside d_x" : "with an adapter and d_x alone");
  if (!adapts) return check.status();
  const ValueType low = check.value("inner", inner);
  check.want(low.extent == in.extent, "inner is ", describe(low), ": want the rows of x, ", describe(in));
  check.matrix("b", b, 1, matrix.rows, low.columns());
  if (!wants) return check.status();
  check.type("d_inner", d_inner, low);
  check.type("d_b", d_b, d_b_result(program));
  return check.status();
}

}  // namespace sluice
