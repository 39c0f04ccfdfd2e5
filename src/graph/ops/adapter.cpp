#include "graph/ops/adapter.h"

#include "graph/op_check.h"

namespace sluice {

void AdapterOperand::check(OpCheck& check, ValueId x, const WeightShape& weight) const {
  if (!*this) return;
  check.step_rows("x", x);
  const WeightShape first = check.weight("adapter.a", a);
  check.want(first.experts % weight.experts == 0, "adapter.a is ", describe(first), ": want matrices for each of ",
             weight.experts, " experts");
  check.matrix("adapter.a", a, first.experts, first.rows, weight.columns);
  check.matrix("adapter.b", b, first.experts, weight.rows, first.rows);
  check.type("adapter.slots", slots, {.width = 1, .element = Element::i32});
  check.type("adapter.scales", scales, {.width = 1});
}

}  // namespace sluice
