// The catalogue of operators. A device that forgets one does not link; one that is missing on purpose stands in the
// device's visible table.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "graph/ops/attention.h"
#include "graph/ops/backward_products.h"
#include "graph/ops/backward_rows.h"
#include "graph/ops/backward_sequences.h"
#include "graph/ops/clustered.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/embed.h"
#include "graph/ops/experts.h"
#include "graph/ops/linear.h"
#include "graph/ops/norm.h"
#include "graph/ops/recurrent.h"
#include "graph/ops/sample.h"
#include "graph/ops/select.h"

namespace sluice {

// The list of ops, written once. X(op, with) for each: those that compute answers, then those of training alone.
#define SLUICE_EACH_OP(X, with)  \
  SLUICE_EACH_ANSWER_OP(X, with) \
  SLUICE_EACH_TRAINING_OP(X, with)
#define SLUICE_EACH_ANSWER_OP(X, with) \
  X(Embed, with)                       \
  X(Linear, with)                      \
  X(RmsNorm, with)                     \
  X(L2Norm, with)                      \
  X(LayerNorm, with)                   \
  X(Add, with)                         \
  X(AddBias, with)                     \
  X(Mul, with)                         \
  X(Scale, with)                       \
  X(Clamp, with)                       \
  X(Softcap, with)                     \
  X(Activation, with)                  \
  X(GatedActivation, with)             \
  X(Rope, with)                        \
  X(Append, with)                      \
  X(Attention, with)                   \
  X(Expand, with)                      \
  X(ShortConv, with)                   \
  X(DeltaGates, with)                  \
  X(DeltaRule, with)                   \
  X(Route, with)                       \
  X(Experts, with)                     \
  X(Gather, with)                      \
  X(Scatter, with)                     \
  X(Pool, with)                        \
  X(Slice, with)                       \
  X(ClusteredLogits, with)             \
  X(Sample, with)
#define SLUICE_EACH_TRAINING_OP(X, with) \
  X(LinearTransposed, with)              \
  X(OuterSum, with)                      \
  X(ExpertLinear, with)                  \
  X(ExpertLinearTransposed, with)        \
  X(ExpertOuterSum, with)                \
  X(CrossEntropy, with)                  \
  X(NormBackward, with)                  \
  X(ActivationBackward, with)            \
  X(RopeBackward, with)                  \
  X(Broadcast, with)                     \
  X(Dots, with)                          \
  X(SliceBackward, with)                 \
  X(GatherBackward, with)                \
  X(Join, with)                          \
  X(JoinBackward, with)                  \
  X(RouteBackward, with)                 \
  X(AttentionBackward, with)             \
  X(ShortConvBackward, with)             \
  X(DeltaGatesBackward, with)            \
  X(DeltaRuleBackward, with)

// Declares `void f(const Embed& op)` and so on: what a class has to define that plays every op.
#define SLUICE_OP_OVERLOAD(O, f) void f(const O& op);
#define SLUICE_OP_OVERLOADS(f) SLUICE_EACH_OP(SLUICE_OP_OVERLOAD, f) static_assert(true)

template <class /*Before*/, class... Ops>
struct OpChoice {
  using Type = std::variant<Ops...>;
  template <class T>
  static constexpr bool kHas = (std::is_same_v<T, Ops> || ...);
};
#define SLUICE_OP_BEHIND(O, before) , O
using OpAlternatives = OpChoice<void SLUICE_EACH_OP(SLUICE_OP_BEHIND, )>;
#undef SLUICE_OP_BEHIND

// One of the catalogue's ops. It is made from one by name, because the choice among so many alternatives, which a
// variant's own constructor makes, costs a compiler seconds in every source that records a program.
class Op : public OpAlternatives::Type {
 public:
  template <class T>
    requires OpAlternatives::kHas<T>
  Op(T op) : OpAlternatives::Type(std::in_place_type<T>, std::move(op)) {}  // NOLINT(google-explicit-constructor)
};
static_assert(std::is_trivially_copyable_v<Op>);

const OpDoc& op_doc(const Op& op);
std::string_view op_name(const Op& op);
Status check_op(const Op& op, const Program& program);

}  // namespace sluice
