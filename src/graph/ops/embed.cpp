#include "graph/ops/embed.h"

#include "graph/op_check.h"

namespace sluice {

ValueType Embed::result(const Program& program) const {
  const ValueType index = type_of(program, ids);
  return {.extent = index.extent, .heads = index.width, .width = shape_of(program, weight).columns};
}

Status Embed::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType index = check.value("ids", ids, Element::i32);
  check.want(index.heads == 1, "ids is ", describe(index), ": want one head");
  const WeightShape table = check.weight("weight", weight);
  check.want(table.experts == 1, "weight is ", describe(table), ": want one matrix");
  check.finite("scale", scale);
  check.type("out", out, result(program));
  if (adapter) check_adapter(check);
  return check.status();
}

void Embed::check_adapter(OpCheck& check) const {
  const ValueType one{.width = 1, .element = Element::i32};
  check.type("ids", ids, one);
  check.type("adapter.tokens", adapter_tokens, one);
  check.type("adapter.slots", adapter.slots, one);
  check.type("adapter.scales", adapter.scales, {.width = 1});
  const WeightShape first = check.weight("adapter.a", adapter.a);
  check.matrix("adapter.b", adapter.b, first.experts, check.weight("weight", weight).columns, first.columns);
}

}  // namespace sluice
