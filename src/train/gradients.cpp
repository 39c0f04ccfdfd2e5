#include "train/gradients.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include "graph/op_check.h"
#include "graph/operands.h"

namespace sluice {
namespace {

// Visits an op's own fields, so that a copy of an op can be given other operands.
template <class F>
struct FieldVisitor : OperandVisitor {
  const F& f;
  explicit FieldVisitor(const F& function) : f(function) {}
  void input(const char*, const ValueId& id, const char*) { f(const_cast<ValueId&>(id)); }
  void output(const char*, const ValueId& id, const char*) { f(const_cast<ValueId&>(id)); }
};

// Calls f with a reference to each value that the op names.
template <class F>
void for_each_value(Op& op, const F& f) {
  FieldVisitor<F> visitor(f);
  std::visit([&](const auto& o) { o.operands(visitor); }, op);
}

// Whether an op costs far more time than its result costs memory.
bool is_costly(const Op& op) {
  return std::holds_alternative<Linear>(op) || std::holds_alternative<ExpertLinear>(op) ||
         std::holds_alternative<ExpertLinearTransposed>(op) || std::holds_alternative<Attention>(op) ||
         std::holds_alternative<DeltaRule>(op) || std::holds_alternative<Route>(op);
}

}  // namespace

Gradients::Gradients(Recorder& recorder, uint32_t ops, const std::vector<WeightId>& factors)
    : recorder_(recorder),
      factors_(factors),
      depends_(recorder.program().values.size()),
      versions_(recorder.program().states.size(), 0) {
  const Program& program = recorder.program();
  for (uint32_t i = 0; i < ops; ++i) {
    const Op& op = program.ops[i];
    if (!is_wanted_of(op)) continue;
    for_each_output(op, [&](ValueId id) { depends_[storage(id)] = type(id).element == Element::f32; });
  }
  for (const Op& op : program.ops) {
    struct Written : OperandVisitor {
      std::vector<uint32_t>& versions;
      explicit Written(std::vector<uint32_t>& all) : versions(all) {}
      void writes(const char*, StateRef ref, const char*) { versions[ref.state] = ref.version; }
    };
    visit_operands(op, Written(versions_));
  }
}

bool Gradients::wanted(WeightId weight) const { return std::ranges::find(factors_, weight) != factors_.end(); }

bool Gradients::is_wanted_of(const Op& op) const {
  bool found = false;
  for_each_input(op, [&](ValueId id) { found = found || depends_[storage(id)]; });
  for_each_weight(op, [&](WeightId id) { found = found || wanted(id); });
  return found;
}

Value Gradients::as(Value value, const ValueType& type) {
  return value.type() == type ? value : recorder_.view(value, type);
}

template <class O>
Value Gradients::with(O op, ValueId O::* result) {
  op.*result = fresh(op.result(recorder_.program())).id;
  recorder_.record(op);
  return at(op.*result);
}

void Gradients::add_to(ValueId value, Value gradient) {
  if (value == kNone || !depends(value)) return;
  const ValueId owner = storage(value);
  const Value whole = as(gradient, type(owner));
  const auto [known, added] = gradients_.try_emplace(owner, whole);
  if (!added) known->second = add(known->second, whole);
}

void Gradients::add_to_weight(WeightId weight, Value gradient) {
  const auto [known, added] = of_weights_.try_emplace(weight, gradient);
  if (!added) known->second = add(known->second, gradient);
}

std::optional<Value> Gradients::of_weight(WeightId weight) const {
  const auto found = of_weights_.find(weight);
  return found == of_weights_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Value> Gradients::gradient(ValueId value) {
  const auto found = gradients_.find(storage(value));
  if (found == gradients_.end()) return std::nullopt;
  return as(found->second, type(value));
}

// The value that stands for it in the layer that is made again.
ValueId Gradients::renamed(ValueId value) {
  if (const auto known = renamed_.find(value); known != renamed_.end()) return known->second;
  const auto owner = renamed_.find(storage(value));
  if (owner == renamed_.end()) return value;
  const ValueId other = recorder_.view(at(owner->second), type(value)).id;
  depends_.resize(recorder_.program().values.size());
  return renamed_[value] = other;
}

// Which of its ops' results a layer keeps. A sum with a product's result is kept in the place of that result, which no
// gradient reads.
std::vector<bool> Gradients::kept_ops(std::span<const Op> layer) const {
  std::vector<bool> kept;
  std::set<ValueId> results;
  for (const Op& op : layer) {
    const Add* const sum = std::get_if<Add>(&op);
    kept.push_back(is_costly(op) ||
                   (sum != nullptr && (results.contains(storage(sum->a)) || results.contains(storage(sum->b)))));
    if (kept.back()) for_each_output(op, [&](ValueId id) { results.insert(storage(id)); });
  }
  return kept;
}

// A state is read as it was before the sequences began, whatever its version is.
void Gradients::record_again(Op& op) {
  const auto next_version = [&](auto& stateful) {
    uint32_t& version = versions_[stateful.state.state];
    stateful.state.version = version;
    stateful.next.version = ++version;
  };
  if (auto* conv = std::get_if<ShortConv>(&op)) next_version(*conv);
  if (auto* rule = std::get_if<DeltaRule>(&op)) next_version(*rule);
  recorder_.record(op);
}

// The ops of a layer, with the values that their operands have when the gradients are made.
std::vector<Op> Gradients::made_again(uint32_t first, uint32_t end, MadeAgain again) {
  renamed_.clear();
  std::vector<bool> is_there(end - first);
  if (again == MadeAgain::small) is_there = kept_ops({recorder_.program().ops.begin() + first, end - first});
  std::vector<Op> ops;
  for (uint32_t i = first; i < end; ++i) {
    Op op = recorder_.program().ops[i];
    for_each_output(op, [&](ValueId id) {
      if (is_there[i - first]) return;
      const ValueId copy = fresh_like(id).id;
      depends_.resize(recorder_.program().values.size());
      depends_[copy] = depends_[storage(id)];
      renamed_[id] = copy;
      if (const auto known = gradients_.find(id); known != gradients_.end()) gradients_.emplace(copy, known->second);
    });
    for_each_value(op, [&](ValueId& id) {
      if (id != kNone) id = renamed(id);
    });
    if (!is_there[i - first]) record_again(op);
    ops.push_back(op);
  }
  return ops;
}

void Gradients::walk(uint32_t first, uint32_t end, MadeAgain again) {
  const auto& all = recorder_.program().ops;
  recorder_.begin_layer(recorder_.program().layers[first]);
  std::vector<Op> ops(all.begin() + first, all.begin() + end);
  if (std::ranges::none_of(ops, [&](const Op& op) { return is_wanted_of(op); })) return;
  if (again != MadeAgain::nothing) ops = made_again(first, end, again);
  for (auto op = ops.rbegin(); op != ops.rend(); ++op)
    if (is_wanted_of(*op)) std::visit([&](const auto& o) { back(o); }, *op);
}

template <class O>
void Gradients::back(const O& /*op*/) {
  recorder_.fail(cat("training: found ", O::kDoc.name, " of what is trained: want an op with a gradient"));
}

void Gradients::back(const Linear& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  if (wanted(op.weight)) add_to_weight(op.weight, with(OuterSum{.left = d->id, .right = op.x}, &OuterSum::out));
  if (!depends(op.x)) return;
  const Value d_x = with(LinearTransposed{.x = d->id, .weight = op.weight}, &LinearTransposed::out);
  add_to(op.x, as(d_x, type(op.x)));
}

void Gradients::back(const RmsNorm& op) {
  if (const std::optional<Value> d = gradient(op.out))
    add_to(op.x, with(NormBackward{.x = op.x, .weight = op.weight, .eps = op.eps, .d_out = d->id}, &NormBackward::d_x));
}

void Gradients::back(const L2Norm& op) {
  if (const std::optional<Value> d = gradient(op.out))
    add_to(op.x, with(NormBackward{.x = op.x, .eps = op.eps, .mean = false, .d_out = d->id}, &NormBackward::d_x));
}

void Gradients::back(const Add& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  add_to(op.a, *d);
  add_to(op.b, *d);
}

void Gradients::back(const AddBias& op) {
  if (const std::optional<Value> d = gradient(op.out)) add_to(op.x, *d);
}

void Gradients::back(const Mul& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  if (depends(op.a)) add_to(op.a, mul(*d, at(op.b)));
  if (depends(op.b)) add_to(op.b, mul(*d, at(op.a)));
}

void Gradients::back(const Scale& op) {
  if (const std::optional<Value> d = gradient(op.out))
    add_to(op.x, with(Scale{.x = d->id, .factor = op.factor, .weight = op.weight}, &Scale::out));
}

void Gradients::back(const Activation& op) {
  if (const std::optional<Value> d = gradient(op.out))
    add_to(op.x, with(ActivationBackward{.x = op.x, .kind = op.kind, .d_out = d->id}, &ActivationBackward::d_x));
}

void Gradients::back(const GatedActivation& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  if (depends(op.up)) add_to(op.up, gated_activation(at(op.gate), *d, op.kind));
  if (!depends(op.gate)) return;
  const bool narrow = type(op.gate).columns() != type(op.up).columns();
  const Value product =
      narrow ? with(Dots{.a = flatten(at(op.up)).id, .b = flatten(*d).id}, &Dots::out) : mul(*d, at(op.up));
  add_to(op.gate, with(ActivationBackward{.x = op.gate, .kind = op.kind, .d_out = as(product, type(op.gate)).id},
                       &ActivationBackward::d_x));
}

void Gradients::back(const Rope& op) {
  if (const std::optional<Value> d = gradient(op.out))
    add_to(op.x, with(RopeBackward{.d_out = d->id, .table = op.table, .first = op.first}, &RopeBackward::d_x));
}

void Gradients::back(const Attention& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  const AttentionBackward backward{.q = op.q,
                                   .k = op.k,
                                   .v = op.v,
                                   .first = op.first,
                                   .last = op.last,
                                   .scale = op.scale,
                                   .window = op.window,
                                   .softcap = op.softcap,
                                   .d_out = d->id,
                                   .d_q = fresh_like(op.q).id,
                                   .d_k = fresh_like(op.k).id,
                                   .d_v = fresh_like(op.v).id};
  recorder_.record(backward);
  add_to(op.q, at(backward.d_q));
  add_to(op.k, at(backward.d_k));
  add_to(op.v, at(backward.d_v));
}

void Gradients::back(const ShortConv& op) {
  if (const std::optional<Value> d = gradient(op.out))
    add_to(op.x, with(ShortConvBackward{.x = op.x, .weight = op.weight, .d_out = d->id}, &ShortConvBackward::d_x));
}

void Gradients::back(const DeltaGates& op) {
  const std::optional<Value> d_decay = gradient(op.decay), d_beta = gradient(op.beta);
  if (!d_decay || !d_beta) return;
  const DeltaGatesBackward backward{.a = op.a,
                                    .b = op.b,
                                    .rate = op.rate,
                                    .bias = op.bias,
                                    .d_decay = d_decay->id,
                                    .d_beta = d_beta->id,
                                    .d_a = fresh_like(op.a).id,
                                    .d_b = fresh_like(op.b).id};
  recorder_.record(backward);
  add_to(op.a, at(backward.d_a));
  add_to(op.b, at(backward.d_b));
}

void Gradients::back(const DeltaRule& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  const DeltaRuleBackward backward{.q = op.q,
                                   .k = op.k,
                                   .v = op.v,
                                   .decay = op.decay,
                                   .beta = op.beta,
                                   .scale = op.scale,
                                   .key_heads = op.key_heads,
                                   .d_out = d->id,
                                   .d_q = fresh_like(op.q).id,
                                   .d_k = fresh_like(op.k).id,
                                   .d_v = fresh_like(op.v).id,
                                   .d_decay = fresh_like(op.decay).id,
                                   .d_beta = fresh_like(op.beta).id};
  recorder_.record(backward);
  add_to(op.q, at(backward.d_q));
  add_to(op.k, at(backward.d_k));
  add_to(op.v, at(backward.d_v));
  add_to(op.decay, at(backward.d_decay));
  add_to(op.beta, at(backward.d_beta));
}

void Gradients::back(const Route& op) {
  if (const std::optional<Value> d = gradient(op.weight))
    add_to(op.logits, with(RouteBackward{.logits = op.logits,
                                         .index = op.index,
                                         .d_weight = d->id,
                                         .scoring = op.scoring,
                                         .normalise = op.normalise,
                                         .scale = op.scale,
                                         .per_expert_scale = op.per_expert_scale},
                           &RouteBackward::d_logits));
}

void Gradients::back(const Gather& op) {
  if (const std::optional<Value> d = gradient(op.out))
    add_to(op.x, with(GatherBackward{.d_out = d->id, .index = op.index}, &GatherBackward::d_x));
}

void Gradients::back(const Pool& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  if (depends(op.x))
    add_to(op.x, with(Broadcast{.x = d->id, .shares = op.shares, .heads = type(op.x).heads, .factor = op.factor},
                      &Broadcast::out));
  if (op.shares != kNone && depends(op.shares))
    add_to(op.shares, with(Dots{.a = op.x, .b = d->id, .factor = op.factor}, &Dots::out));
}

void Gradients::back(const Broadcast& op) {
  if (op.shares != kNone) return recorder_.fail("training: found broadcast with shares: want it without");
  if (const std::optional<Value> d = gradient(op.out))
    add_to(op.x, with(Pool{.x = d->id, .factor = op.factor}, &Pool::out));
}

void Gradients::back(const Slice& op) {
  if (const std::optional<Value> d = gradient(op.out))
    add_to(
        op.x,
        with(SliceBackward{.d_out = d->id, .first_head = op.first_head, .stride = op.stride, .heads = type(op.x).heads},
             &SliceBackward::d_x));
}

void Gradients::back(const Join& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  const JoinBackward backward{.d_out = d->id, .d_own = fresh_like(op.own).id, .d_shared = fresh_like(op.shared).id};
  recorder_.record(backward);
  add_to(op.own, at(backward.d_own));
  add_to(op.shared, at(backward.d_shared));
}

void Gradients::back(const ExpertLinear& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  const uint32_t experts = recorder_.program().weights[op.weight].shape.experts;
  if (wanted(op.weight))
    add_to_weight(
        op.weight,
        with(
            ExpertOuterSum{
                .left = d->id, .right = op.x, .index = op.index, .experts = experts, .by_choice = op.by_choice},
            &ExpertOuterSum::out));
  if (!depends(op.x)) return;
  Value d_x =
      with(ExpertLinearTransposed{.x = d->id, .index = op.index, .weight = op.weight}, &ExpertLinearTransposed::out);
  if (!op.by_choice) {
    const uint32_t choices = op.index == kNone ? experts : type(op.index).width;
    d_x = with(Pool{.x = fold(d_x, choices).id}, &Pool::out);
  }
  add_to(op.x, as(d_x, type(op.x)));
}

void Gradients::back(const ExpertLinearTransposed& op) {
  const std::optional<Value> d = gradient(op.out);
  if (!d) return;
  if (wanted(op.weight))
    add_to_weight(op.weight, with(ExpertOuterSum{.left = op.x,
                                                 .right = d->id,
                                                 .index = op.index,
                                                 .experts = recorder_.program().weights[op.weight].shape.experts,
                                                 .by_choice = true},
                                  &ExpertOuterSum::out));
  if (depends(op.x))
    add_to(op.x, with(ExpertLinear{.x = d->id, .index = op.index, .weight = op.weight, .by_choice = true},
                      &ExpertLinear::out));
}

// The op itself makes the gradients: the sum of all losses is what is differentiated.
void Gradients::back(const CrossEntropy& op) {
  add_to(op.x, at(op.d_x));
  if (op.inner == kNone) return;
  add_to(op.inner, at(op.d_inner));
  add_to_weight(op.b, at(op.d_b));
}

}  // namespace sluice
