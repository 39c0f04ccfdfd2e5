#include "graph/cost.h"

#include <algorithm>
#include <cmath>

#include "graph/operands.h"

namespace sluice {
namespace {

// One op's cost. Ops that cost more than their operands have an overload.
class Coster {
 public:
  Coster(const CostFacts& facts, const StepWork& work) : facts_(facts), program_(*facts.program), work_(work) {}

  OpCost cost(const Op& op) {
    for_each_weight(op, [&](WeightId id) { cost_.weight_bytes += weight_bytes(id); });
    for_each_input(op, [&](ValueId id) { cost_.value_bytes += value_bytes(id); });
    for_each_output(op, [&](ValueId id) { cost_.value_bytes += value_bytes(id); });
    std::visit([&](const auto& o) { add(o); }, op);
    return cost_;
  }

 private:
  void add(const Embed& op) {
    const WeightShape& table = shape(op.weight);
    cost_.weight_bytes = rows(op.out) * type(op.out).heads * row_bytes(facts_.formats[op.weight], table.columns);
    cost_.flops = elements(op.out);
    if (op.adapter) cost_.flops += rows(op.out) * product(op.adapter.b) / shape(op.adapter.b).experts;
  }
  void add(const Linear& op) {
    cost_.flops = rows(op.out) * product(op.weight);
    add_adapter(op.adapter, rows(op.out), 1);
  }
  // Every row counts as if it had an adapter, and rows as if they had different ones, as far as there are matrices.
  void add_adapter(const AdapterOperand& adapter, uint64_t rows, uint64_t products_a_row) {
    if (!adapter) return;
    const uint32_t matrices = shape(adapter.a).experts;
    const uint64_t all = weight_bytes(adapter.a) + weight_bytes(adapter.b), products = rows * products_a_row;
    cost_.flops += products * (product(adapter.a) + product(adapter.b)) / matrices;
    cost_.weight_bytes -= all - all / matrices * std::min<uint64_t>(matrices, products);
  }
  void add(const RmsNorm& op) { cost_.flops = (op.weight == kNone ? 3 : 4) * elements(op.out); }
  void add(const L2Norm& op) { cost_.flops = 3 * elements(op.out); }
  void add(const LayerNorm& op) { cost_.flops = 7 * elements(op.out); }
  void add(const AddBias& op) { cost_.flops = elements(op.out); }
  void add(const Clamp& op) { cost_.flops = 2 * elements(op.out); }
  void add(const Add& op) { cost_.flops = elements(op.out); }
  void add(const Mul& op) { cost_.flops = elements(op.out); }
  void add(const Scale& op) { cost_.flops = (op.weight == kNone ? 1 : 2) * elements(op.out); }
  void add(const Softcap& op) { cost_.flops = 3 * elements(op.out); }
  void add(const Activation& op) { cost_.flops = 3 * elements(op.out); }
  void add(const GatedActivation& op) { cost_.flops = 4 * elements(op.out); }
  void add(const Rope& op) {
    cost_.flops = rows(op.out) * type(op.out).heads * 6 * program_.ropes[op.table].inverse_frequencies.size();
  }
  void add(const Append& op) { cost_.state_bytes = state_bytes(op.state, rows(op.k)); }
  void add(const Attention& op);
  void add(const Expand& op) { cost_.flops = rows(op.latent) * (product(op.weights.key) + product(op.weights.value)); }
  void add(const ShortConv& op) {
    cost_.flops = elements(op.out) * (2 * shape(op.weight).columns + 2);
    cost_.state_bytes = state_bytes(op.state, 2 * work_.sequences.size());
  }
  void add(const DeltaGates& op) { cost_.flops = 6 * elements(op.decay); }
  void add(const DeltaRule& op) {
    cost_.flops = rows(op.out) * 7 * program_.states[op.state.state].slot_elements();
    cost_.state_bytes = state_bytes(op.state, 2 * work_.sequences.size());
  }
  void add(const Route& op) { cost_.flops = 2 * elements(op.logits); }
  void add(const Experts& op) {
    const uint32_t experts = shape(op.gate).experts, used = type(op.index).width;
    const double read = experts_read(facts_, experts, used, rows(op.x)) / experts;
    const AdapterOperand adapters[] = {op.adapters.gate(), op.adapters.up(), op.adapters.down()};
    uint64_t of_adapters = 0;
    for (const AdapterOperand& one : adapters)
      if (one) of_adapters += weight_bytes(one.a) + weight_bytes(one.b);
    const auto of_experts = static_cast<double>(cost_.weight_bytes - of_adapters);
    cost_.weight_bytes = of_adapters + static_cast<uint64_t>(std::llround(read * of_experts));
    cost_.flops = rows(op.x) * used * (product(op.gate) + product(op.up) + product(op.down)) / experts;
    for (const AdapterOperand& one : adapters) add_adapter(one, rows(op.x), used);
  }
  void add(const Gather& op) { cost_.value_bytes = 2 * value_bytes(op.out); }
  void add(const Scatter& op) { cost_.value_bytes = 2 * value_bytes(op.out); }
  void add(const Pool& op) { cost_.flops = (op.shares == kNone ? 1 : 2) * elements(op.x); }
  void add(const Slice& op) { cost_.value_bytes = 2 * value_bytes(op.out); }
  void add(const ClusteredLogits& op) {
    const uint64_t products = rows(op.out) * op.k * shape(op.order).columns;
    cost_.flops = 2 * products * shape(op.table).columns + elements(op.scores);
    cost_.weight_bytes = products * row_bytes(facts_.formats[op.table], shape(op.table).columns);
  }
  void add(const Sample& op) { cost_.flops = 2 * elements(op.logits); }

  void add(const LinearTransposed& op) { cost_.flops = rows(op.out) * product(op.weight); }
  void add(const OuterSum& op) { cost_.flops = 2 * rows(op.left) * type(op.left).columns() * type(op.right).columns(); }
  void add(const ExpertLinear& op) { cost_.flops = rows(op.out) * product(op.weight) / shape(op.weight).experts; }
  void add(const ExpertLinearTransposed& op) {
    cost_.flops = rows(op.out) * product(op.weight) / shape(op.weight).experts;
  }
  void add(const ExpertOuterSum& op) {
    cost_.flops = 2 * rows(op.left) * type(op.left).columns() * type(op.right).columns();
  }
  void add(const CrossEntropy& op) {
    const uint64_t gradients = op.has_gradients() ? 1 : 0;
    cost_.flops = (1 + gradients) * rows(op.x) * product(op.weight);
    if (op.b != kNone) cost_.flops += (1 + 2 * gradients) * rows(op.x) * product(op.b);
  }
  void add(const NormBackward& op) { cost_.flops = 8 * elements(op.d_x); }
  void add(const ActivationBackward& op) { cost_.flops = 8 * elements(op.d_x); }
  void add(const RopeBackward& op) {
    cost_.flops = rows(op.d_x) * type(op.d_x).heads * 6 * program_.ropes[op.table].inverse_frequencies.size();
  }
  void add(const Broadcast& op) { cost_.flops = (op.shares == kNone ? 1 : 2) * elements(op.out); }
  void add(const Dots& op) { cost_.flops = 2 * elements(op.a); }
  void add(const SliceBackward& op) { cost_.value_bytes = 2 * value_bytes(op.d_x); }
  void add(const GatherBackward& op) { cost_.value_bytes = 2 * value_bytes(op.d_x); }
  void add(const Join& op) { cost_.value_bytes = 2 * value_bytes(op.out); }
  void add(const JoinBackward& op) { cost_.flops = elements(op.d_out); }
  void add(const RouteBackward& op) { cost_.flops = 4 * elements(op.logits); }
  // At most all rows of k, twice the scores and three sums.
  void add(const AttentionBackward& op) {
    const uint64_t widths = 3 * uint64_t{type(op.q).width} + 2 * uint64_t{type(op.v).width};
    cost_.flops = 2 * rows(op.q) * rows(op.k) * type(op.q).heads * widths;
  }
  void add(const ShortConvBackward& op) { cost_.flops = elements(op.x) * (4 * shape(op.weight).columns + 6); }
  void add(const DeltaGatesBackward& op) { cost_.flops = 8 * elements(op.a); }
  // The states once more, and five products for each of their elements.
  void add(const DeltaRuleBackward& op) { cost_.flops = rows(op.v) * type(op.v).columns() * type(op.k).width * 20; }

  const ValueType& type(ValueId id) const { return program_.values[id].type; }
  const WeightShape& shape(WeightId id) const { return program_.weights[id].shape; }
  uint64_t rows(ValueId id) const { return work_.count(type(id).extent.symbol) * type(id).extent.ratio; }
  uint64_t elements(ValueId id) const { return rows(id) * type(id).columns(); }
  uint64_t value_bytes(ValueId id) const { return elements(id) * sizeof(float); }
  uint64_t weight_bytes(WeightId id) const {
    return uint64_t{shape(id).experts} * shape(id).rows * row_bytes(facts_.formats[id], shape(id).columns);
  }
  // The flops of one row with all matrices of the weight.
  uint64_t product(WeightId id) const { return uint64_t{2} * shape(id).experts * shape(id).rows * shape(id).columns; }
  uint64_t state_bytes(const StateRef& state, uint64_t count) const {
    return static_cast<uint64_t>(std::llround(facts_.state_bytes[state.state] * static_cast<double>(count)));
  }

  const CostFacts& facts_;
  const Program& program_;
  const StepWork& work_;
  OpCost cost_;
};

// Counts scores and sums of all positions that a row sees. Over latents, the matrices are folded into query and result.
void Coster::add(const Attention& op) {
  const KeyShape keys = op.keys(program_);
  const uint64_t of_key = uint64_t{keys.key_width} + keys.value_width;
  if (!op.has_cache()) {  // at most all rows of k
    cost_.flops = rows(op.q) * rows(op.k) * type(op.q).heads * 2 * of_key;
    return;
  }
  const bool all_rows = type(op.q).extent.symbol == Symbol::rows;
  uint64_t seen = 0, read = 0;  // positions, by rows and by sequences
  for (const StepWork::Sequence& sequence : work_.sequences) {
    const uint64_t end = uint64_t{sequence.first_position} + sequence.rows;
    const uint64_t first = all_rows ? sequence.first_position : end - 1;
    const uint64_t window = op.window == 0 ? end : op.window;
    for (uint64_t position = first; position < end; ++position) seen += std::min(window, position + 1);
    read += end - (first + 1 - std::min(window, first + 1));
  }
  const uint64_t per_position = op.expand ? of_key + keys.value_width : of_key;
  cost_.flops = seen * type(op.q).heads * 2 * per_position;
  cost_.state_bytes = state_bytes(op.state, read);
  if (op.expand) cost_.flops += rows(op.q) * (product(op.expand.key) + product(op.expand.value));
  for (const AdapterOperand& one : {op.expand.key_adapter, op.expand.value_adapter})
    add_adapter(one, rows(op.q), type(op.q).heads);
}

}  // namespace

namespace {

// Calls visit(id) for the factors of the op's adapters.
template <class Visit>
void for_each_factor(const Op& op, const Visit& visit) {
  const auto of = [&](const AdapterOperand& adapter) {
    if (!adapter) return;
    visit(adapter.a);
    visit(adapter.b);
  };
  if (const auto* linear = std::get_if<Linear>(&op)) of(linear->adapter);
  if (const auto* embed = std::get_if<Embed>(&op)) of(embed->adapter);
  if (const auto* attention = std::get_if<Attention>(&op)) {
    of(attention->expand.key_adapter);
    of(attention->expand.value_adapter);
  }
  if (const auto* experts = std::get_if<Experts>(&op))
    for (const AdapterOperand& one : {experts->adapters.gate(), experts->adapters.up(), experts->adapters.down()})
      of(one);
}

}  // namespace

std::vector<WeightUse> weight_uses(const Program& program) {
  std::vector<WeightUse> uses(program.weights.size());
  for (const Op& op : program.ops) {
    const WeightUse use = std::holds_alternative<Embed>(op)     ? WeightUse::rows
                          : std::holds_alternative<Experts>(op) ? WeightUse::experts
                                                                : WeightUse::whole;
    for_each_weight(op, [&](WeightId id) { uses[id] = std::max(uses[id], use); });
    for_each_factor(op, [&](WeightId id) { uses[id] = WeightUse::adapter; });
  }
  return uses;
}

OpCost& OpCost::operator+=(const OpCost& other) {
  weight_bytes += other.weight_bytes;
  state_bytes += other.state_bytes;
  value_bytes += other.value_bytes;
  flops += other.flops;
  return *this;
}

StepWork StepWork::of(const StepBuffer& step) {
  StepWork work{.sequences = {}, .other = step.counts()};
  work.sequences.resize(step.sequences());
  const auto positions = step.positions(), sequences = step.row_sequences();
  for (size_t row = 0; row < positions.size(); ++row) {
    Sequence& sequence = work.sequences[static_cast<size_t>(sequences[row])];
    if (sequence.rows++ == 0) sequence.first_position = static_cast<uint32_t>(positions[row]);
  }
  return work;
}

uint64_t StepWork::rows() const {
  uint64_t sum = 0;
  for (const Sequence& sequence : sequences) sum += sequence.rows;
  return sum;
}

uint64_t StepWork::count(Symbol symbol) const {
  switch (symbol) {
    case Symbol::rows: return rows();
    case Symbol::wanted: return sequences.size();
    default: return other[symbol];
  }
}

double experts_read(const CostFacts& facts, uint32_t experts, uint32_t used, uint64_t rows) {
  const auto chosen = [&](double share) { return 1 - std::pow(1 - share, static_cast<double>(rows)); };
  if (facts.expert_shares.size() != experts) return experts * chosen(static_cast<double>(used) / experts);
  double sum = 0;
  for (const double share : facts.expert_shares) sum += chosen(share);
  return sum;
}

OpCost op_cost(const CostFacts& facts, uint32_t op, const StepWork& work) {
  return Coster(facts, work).cost(facts.program->ops[op]);
}

}  // namespace sluice
