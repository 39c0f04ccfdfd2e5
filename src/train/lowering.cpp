#include "train/lowering.h"

#include <algorithm>
#include <set>

#include "graph/op_check.h"
#include "graph/operands.h"

namespace sluice {

Program Lowering::begun(const Program& text) {
  Program program;
  program.values = text.values;
  program.weights = text.weights;
  program.ropes = text.ropes;
  program.inputs = text.inputs;
  program.symbols = text.symbols;
  program.placeholders = text.placeholders;
  for (const StateDecl& state : text.states) {
    if (text.groups[state.group].kind != StateKind::slots) continue;
    program.groups = {text.groups[state.group]};
    program.states.push_back(state);
    program.states.back().group = 0;
  }
  return program;
}

Lowering::Lowering(Recorder& recorder, const Program& text, const std::vector<TrainedWeight>& trained)
    : r_(recorder), text_(text) {
  uint32_t slot = 0;
  for (uint32_t i = 0; i < text.states.size(); ++i)
    if (text.groups[text.states[i].group].kind == StateKind::slots) slots_[i] = slot++;
  for (const TrainedWeight& one : trained) {
    const auto found = std::ranges::find(text.weights, one.weight, &WeightDecl::name);
    if (found == text.weights.end()) {
      missing_.push_back(one.weight);
      continue;
    }
    const WeightShape shape = found->shape;
    const Weight a =
        r_.weight(one.weight + ".adapter_a", {.experts = shape.experts, .rows = one.rank, .columns = shape.columns});
    const Weight b =
        r_.weight(one.weight + ".adapter_b", {.experts = shape.experts, .rows = shape.rows, .columns = one.rank});
    trained_[static_cast<WeightId>(found - text.weights.begin())] = {.a = a, .b = b, .scale = one.scale};
    for (const Weight factor : {a, b}) {
      forward_.factors.push_back(factor.id);
      forward_.names.push_back(r_.program().weights[factor.id].name);
    }
  }
}

const Lowering::Factors* Lowering::factors_of(WeightId weight) {
  const auto found = trained_.find(weight);
  return found == trained_.end() ? nullptr : &found->second;
}

void Lowering::lower(const Append& op) { kept_[{op.next.state, op.next.version}] = &op; }

// The adapter's sum comes after the product's. Its scale is on the narrow rows between the factors, forwards and
// backwards, where it costs least.
void Lowering::lower(const Linear& op) {
  const Factors* factors = factors_of(op.weight);
  if (factors == nullptr) return r_.record(op);
  const Value product = with(Linear{.x = op.x, .weight = op.weight});
  const Value inner = scale(linear(at(op.x), factors->a), factors->scale);
  r_.record(Add{.a = product.id, .b = linear(inner, factors->b).id, .out = op.out});
}

Value Lowering::expert_linear(const Choice& choice, WeightId weight) {
  const Value product =
      with(ExpertLinear{.x = choice.x, .index = choice.index, .weight = weight, .by_choice = choice.by_choice});
  const Factors* factors = factors_of(weight);
  if (factors == nullptr) return product;
  const Value inner =
      with(ExpertLinear{.x = choice.x, .index = choice.index, .weight = factors->a.id, .by_choice = choice.by_choice});
  return add(
      product,
      with(ExpertLinear{
          .x = scale(inner, factors->scale).id, .index = choice.index, .weight = factors->b.id, .by_choice = true}));
}

// The factors of a stored transposed matrix W are those of W as it lies: W + scale B A.
Value Lowering::expert_transposed(ValueId x, WeightId weight) {
  const Value product = with(ExpertLinearTransposed{.x = x, .weight = weight});
  const Factors* factors = factors_of(weight);
  if (factors == nullptr) return product;
  const Value inner = with(ExpertLinearTransposed{.x = x, .weight = factors->b.id});
  return add(product, with(ExpertLinearTransposed{.x = scale(inner, factors->scale).id, .weight = factors->a.id}));
}

void Lowering::lower(const Experts& op) {
  const uint32_t k = type_of(text_, op.index).width;
  const Value gate = expert_linear({.x = op.x, .index = op.index}, op.gate);
  const Value up = expert_linear({.x = op.x, .index = op.index}, op.up);
  const Value inner = gated_activation(gate, up, op.kind);
  const Value down = expert_linear({.x = inner.id, .index = op.index, .by_choice = true}, op.down);
  r_.record(Pool{.x = fold(down, k).id, .shares = op.weight, .out = op.out});
}

// The key of latent attention: each head's own part, then the one that all heads share.
ValueId Lowering::own_keys(const Append& kept, const Expansion& expand, uint32_t heads) {
  if (!expand) return kept.k;
  const Value own = expand.key_transposed
                        ? expert_transposed(unfold(with(Broadcast{.x = kept.v, .heads = heads})).id, expand.key)
                        : expert_linear({.x = kept.v}, expand.key);
  return with(Join{.own = fold(own, heads).id, .shared = kept.k}).id;
}

ValueId Lowering::own_values(const Append& kept, const Expansion& expand) {
  if (!expand) return kept.v;
  return fold(expert_linear({.x = kept.v}, expand.value), shape_of(text_, expand.value).experts).id;
}

void Lowering::lower(const Attention& op) {
  Attention own = op;
  if (op.has_cache()) {
    const Append& kept = *kept_.at({op.state.state, op.state.version});
    own.state = {};
    own.expand = {};
    own.k = own_keys(kept, op.expand, type_of(text_, op.q).heads);
    own.v = own_values(kept, op.expand);
  }
  r_.record(own);
}

void Lowering::lower(const ShortConv& op) {
  ShortConv own = op;
  own.state = slot(op.state);
  own.next = slot(op.next);
  r_.record(own);
}

void Lowering::lower(const DeltaRule& op) {
  DeltaRule own = op;
  own.state = slot(op.state);
  own.next = slot(op.next);
  r_.record(own);
}

// The product that makes the logits, and the cap behind it.
bool Lowering::find_head() {
  const auto logits = std::ranges::find(text_.outputs, std::string("logits"), &NamedValue::name);
  if (logits == text_.outputs.end()) return false;
  ValueId made = logits->value;
  for (auto op = text_.ops.rbegin(); op != text_.ops.rend(); ++op) {
    if (const auto* cap = std::get_if<Softcap>(&*op); cap != nullptr && cap->out == made) {
      cap_ = cap;
      made = cap->x;
    }
    if (const auto* linear = std::get_if<Linear>(&*op); linear != nullptr && linear->out == made) head_ = linear;
  }
  return head_ != nullptr;
}

void Lowering::record_loss(bool gradients) {
  const Extent extent = type_of(text_, head_->x).extent;
  CrossEntropy op{.x = head_->x, .weight = head_->weight, .softcap = cap_ == nullptr ? 0.0f : cap_->cap};
  op.target = r_.input("target", {.extent = extent, .width = 1, .element = Element::i32}).id;
  op.share = r_.input("share", {.extent = extent, .width = 1}).id;
  if (const Factors* factors = factors_of(head_->weight); factors != nullptr) {
    op.inner = linear(at(head_->x), factors->a).id;
    op.b = factors->b.id;
    op.factor = factors->scale;
  }
  op.loss = r_.new_value(op.loss_result(r_.program())).id;
  if (gradients) op.d_x = r_.new_value(type_of(r_.program(), op.x)).id;
  if (gradients && op.inner != kNone) {
    op.d_inner = r_.new_value(type_of(r_.program(), op.inner)).id;
    op.d_b = r_.new_value(op.d_b_result(r_.program())).id;
  }
  r_.record(op);
  forward_.loss = at(op.loss);
}

Result<Forward> Lowering::run(bool gradients) {
  if (!missing_.empty())
    return error(ErrorKind::unsupported, "adapter: found one of ", missing_.front(),
                 ": want one of a weight that the text program multiplies by");
  if (!find_head()) return error(ErrorKind::unsupported, "program: found no product that makes logits: want one");
  std::set<uint32_t> left_out;
  for (const ExpertGuess& guess : text_.guesses)
    for (uint32_t op = guess.first_op; op < guess.end_op; ++op) left_out.insert(op);
  for (uint32_t op = 0; op < text_.ops.size(); ++op) {
    const Op& one = text_.ops[op];
    const bool is_head = std::get_if<Linear>(&one) == head_ || (cap_ != nullptr && std::get_if<Softcap>(&one) == cap_);
    if (is_head || left_out.contains(op)) continue;
    r_.begin_layer(text_.layers[op]);
    std::visit([&](const auto& o) { lower(o); }, one);
  }
  r_.begin_layer(-1);
  record_loss(gradients);
  forward_.ops = static_cast<uint32_t>(r_.program().ops.size());
  return std::move(forward_);
}

}  // namespace sluice
