#include "graph/ops/sample.h"

#include "graph/op_check.h"

namespace sluice {

ValueType Sample::result(const Program& program) const {
  return {.extent = type_of(program, logits).extent, .width = kSampleWords, .element = Element::i32};
}

Status Sample::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("logits", logits);
  check.want(in.extent == Extent{.symbol = Symbol::wanted} && in.heads == 1, "logits is ", describe(in),
             ": want f32 [wanted, vocabulary]");
  check.step_rows("logits", logits);
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice
