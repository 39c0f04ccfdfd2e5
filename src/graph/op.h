// The catalogue of operators. A device that forgets one does not compile; one that is missing on purpose stands in the
// device's visible table.
#pragma once

#include <string_view>
#include <variant>

#include "graph/ops/attention.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/embed.h"
#include "graph/ops/experts.h"
#include "graph/ops/linear.h"
#include "graph/ops/norm.h"
#include "graph/ops/recurrent.h"
#include "graph/ops/sample.h"
#include "graph/ops/select.h"

namespace sluice {

using Op =
    std::variant<Embed, Linear, RmsNorm, L2Norm, Add, Mul, Scale, Softcap, Activation, GatedActivation, Rope, Append,
                 Attention, Expand, ShortConv, DeltaGates, DeltaRule, Route, Experts, Gather, Slice, Sample>;

inline const OpDoc& op_doc(const Op& op) {
  return std::visit([](const auto& o) -> const OpDoc& { return o.kDoc; }, op);
}
inline std::string_view op_name(const Op& op) { return op_doc(op).name; }
inline Status check_op(const Op& op, const Program& program) {
  return std::visit([&](const auto& o) { return o.check(program); }, op);
}

}  // namespace sluice
