#include "graph/op.h"

namespace sluice {

const OpDoc& op_doc(const Op& op) {
  return std::visit([](const auto& o) -> const OpDoc& { return o.kDoc; }, op);
}

std::string_view op_name(const Op& op) { return op_doc(op).name; }

Status check_op(const Op& op, const Program& program) {
  return std::visit([&](const auto& o) { return o.check(program); }, op);
}

}  // namespace sluice
