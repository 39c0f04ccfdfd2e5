#include "graph/recorder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/limits.h"
#include "graph/op_check.h"
#include "graph/operands.h"

namespace sluice {
namespace {

constexpr ValueType kPlaceholder{.width = 1};

bool fits(const ValueType& type) {
  const CheckedSize columns = CheckedSize(type.heads) * type.width, all = columns * type.extent.ratio;
  const uint64_t most = type.extent.symbol == Symbol::one ? kMaxWeightElements : kMaxColumns;
  return columns.fits(kMaxColumns) && all.fits(most) && all.value() > 0u;
}

bool fits(const WeightShape& shape) {
  const CheckedSize elements = CheckedSize(shape.experts) * shape.rows * shape.columns;
  return shape.columns <= kMaxColumns && elements.fits(kMaxWeightElements) && elements.value() > 0u;
}

bool has_name(const std::vector<NamedValue>& values, const std::string& name) {
  return std::any_of(values.begin(), values.end(), [&](const NamedValue& value) { return value.name == name; });
}

// Appends `op` with a new value as its result.
template <class O>
Value record_with_result(Value x, O op) {
  Recorder& recorder = *x.recorder;
  const Value out = recorder.new_value(op.result(recorder.program()));
  op.out = out.id;
  recorder.record(op);
  return out;
}

void check_same(Value a, Value b) { CHECK(a.recorder == b.recorder); }

template <class O>
const O* op_at(const Program& program, uint32_t index) {
  return std::get_if<O>(&program.ops[index]);
}

bool is_qkv(const Program& program, const Block& block) {
  const Linear* first = op_at<Linear>(program, block.first_op);
  for (uint32_t i = block.first_op; i < block.end_op; ++i) {
    const Linear* linear = op_at<Linear>(program, i);
    if (linear == nullptr || linear->x != first->x) return false;
  }
  return true;
}

bool is_gated_mlp(const Program& program, const Block& block) {
  if (block.end_op - block.first_op != 4) return false;
  const Linear* gate = op_at<Linear>(program, block.first_op);
  const Linear* up = op_at<Linear>(program, block.first_op + 1);
  const GatedActivation* gated = op_at<GatedActivation>(program, block.first_op + 2);
  const Linear* down = op_at<Linear>(program, block.first_op + 3);
  return gate != nullptr && up != nullptr && gated != nullptr && down != nullptr && gate->x == up->x &&
         gated->gate == gate->out && gated->up == up->out && down->x == gated->out &&
         type_of(program, gate->out) == type_of(program, up->out);
}

bool is_moe(const Program& program, const Block& block) {
  if (block.end_op - block.first_op != 2) return false;
  const Route* route = op_at<Route>(program, block.first_op);
  const Experts* experts = op_at<Experts>(program, block.first_op + 1);
  return route != nullptr && experts != nullptr && experts->index == route->index && experts->weight == route->weight;
}

bool has_form(const Program& program, const Block& block) {
  if (block.first_op == block.end_op) return false;
  switch (block.kind) {
    case BlockKind::qkv: return is_qkv(program, block);
    case BlockKind::gated_mlp: return is_gated_mlp(program, block);
    case BlockKind::moe: break;
  }
  return is_moe(program, block);
}

Value record_attention(Value q, Attention op, const AttentionOptions& options) {
  for (const Value input : {options.first, options.last})
    if (input.recorder != nullptr) check_same(q, input);
  op.first = options.first.id;
  op.last = options.last.id;
  op.scale = options.scale;
  op.window = options.window;
  op.softcap = options.softcap;
  op.expand = options.expand;
  if (op.expand && has_positions(q.type().extent)) {
    op.expand.key_adapter = q.recorder->adapter_of({op.expand.key});
    op.expand.value_adapter = q.recorder->adapter_of({op.expand.value});
  }
  op.relative = options.relative.id;
  return record_with_result(q, op);
}

}  // namespace

ValueType Value::type() const { return type_of(recorder->program(), id); }

Recorder::Recorder() = default;

Recorder::Recorder(Program begun) : program_(std::move(begun)), state_versions_(program_.states.size()) {}

void Recorder::fail(const std::string& why) {
  if (!first_problem_.empty()) return;
  first_problem_ = layer_ < 0 ? why : cat("layer ", layer_, ": ", why);
}

Value Recorder::new_value(const ValueType& type) {
  if (!fits(type)) fail(cat("a value is ", describe(type), ": want 1 to ", kMaxColumns, " columns"));
  const auto id = static_cast<ValueId>(program_.values.size());
  program_.values.push_back({.type = fits(type) ? type : kPlaceholder, .storage = id});
  return {this, id};
}

Value Recorder::view(Value of, const ValueType& type) {
  const ValueInfo info{.type = type, .storage = program_.values[of.id].storage};
  const auto id = static_cast<ValueId>(program_.values.size());
  program_.values.push_back(info);
  return {this, id};
}

Weight Recorder::weight(const std::string& name, WeightShape shape) {
  if (!fits(shape)) {
    fail(cat("weight ", name, " is ", describe(shape), ": want 1 to ", kMaxColumns, " columns and at most ",
             kMaxWeightElements, " elements"));
    shape = {.columns = 1};
  }
  for (size_t id = 0; id < program_.weights.size(); ++id) {
    const WeightDecl& known = program_.weights[id];
    if (known.name != name) continue;
    if (known.shape != shape) fail(cat("weight ", name, " is ", describe(shape), ": want ", describe(known.shape)));
    return {static_cast<WeightId>(id)};
  }
  program_.weights.push_back({.name = name, .shape = shape});
  return {static_cast<WeightId>(program_.weights.size() - 1)};
}

Value Recorder::input(const std::string& name, ValueType type) {
  if (has_name(program_.inputs, name)) fail(cat("input ", name, " is declared twice: want one of that name"));
  const ValueType wanted{.extent = {.symbol = Symbol::wanted}, .width = 1, .element = Element::i32};
  if (name == "wanted" && type != wanted) fail(cat("input wanted is ", describe(type), ": want ", describe(wanted)));
  const Value value = new_value(type);
  program_.inputs.push_back({.name = name, .value = value.id});
  const auto use = [&](Symbol symbol) {
    if (!has_symbol(program_, symbol)) program_.symbols.push_back(symbol);
  };
  // Wanted rows are rows of the step.
  if (type.extent.symbol == Symbol::wanted) use(Symbol::rows);
  use(type.extent.symbol);
  return value;
}

AdapterOperand Recorder::adapter_of(Weight weight) {
  if (adapters_.slots == 0 || adapters_.no_products || !weight) return {};
  const WeightDecl decl = program_.weights[weight.id];
  const std::vector<std::string>& listed = adapters_.weights;
  if (!listed.empty() && std::ranges::find(listed, decl.name) == listed.end()) return {};
  take_adapter_inputs();
  const uint32_t matrices = adapters_.slots * decl.shape.experts;
  const Weight a = this->weight(decl.name + ".adapter_a",
                                {.experts = matrices, .rows = adapters_.rank, .columns = decl.shape.columns});
  const Weight b =
      this->weight(decl.name + ".adapter_b", {.experts = matrices, .rows = decl.shape.rows, .columns = adapters_.rank});
  return {.a = a.id, .b = b.id, .slots = adapter_slots_.id, .scales = adapter_scales_.id};
}

AdapterOperand Recorder::embedding_adapter_of(Weight table) {
  if (adapters_.slots == 0 || !table) return {};
  const WeightDecl decl = program_.weights[table.id];
  if (std::ranges::find(adapters_.embeddings, decl.name) == adapters_.embeddings.end()) return {};
  take_adapter_inputs();
  const Weight a = this->weight(decl.name + ".embedding_a",
                                {.experts = adapters_.slots, .rows = decl.shape.rows, .columns = adapters_.rank});
  const Weight b = this->weight(decl.name + ".embedding_b",
                                {.experts = adapters_.slots, .rows = decl.shape.columns, .columns = adapters_.rank});
  return {.a = a.id, .b = b.id, .slots = adapter_slots_.id, .scales = adapter_scales_.id};
}

void Recorder::take_adapter_inputs() {
  if (adapter_slots_.recorder != nullptr) return;
  adapter_slots_ = input("adapter_slots", {.width = 1, .element = Element::i32});
  adapter_scales_ = input("adapter_scales", {.width = 1});
}

RopeId Recorder::rope_table(const RopeDecl& rope) {
  const auto known = std::find(program_.ropes.begin(), program_.ropes.end(), rope);
  if (known != program_.ropes.end()) return static_cast<RopeId>(known - program_.ropes.begin());
  const auto finite = [](float number) { return std::isfinite(number); };
  const bool finite_table = std::all_of(rope.inverse_frequencies.begin(), rope.inverse_frequencies.end(), finite) &&
                            finite(rope.magnitude) && rope.inverse_frequencies.size() <= kMaxColumns;
  if (!finite_table) fail("a rope table has a frequency that is not finite, or too many: want finite ones");
  const bool sound = check_coordinates(rope) && finite_table;
  program_.ropes.push_back(sound ? rope : RopeDecl{});
  return static_cast<RopeId>(program_.ropes.size() - 1);
}

// One column for each pair, of an input of integers.
bool Recorder::check_coordinates(const RopeDecl& rope) {
  const ValueType type = type_of(program_, rope.coordinates);
  const bool given = rope.coordinates != kNone;
  const uint32_t columns = given ? type.width : 1;
  const bool is_table = input_of(program_, rope.coordinates) >= 0 && type.element == Element::i32 && type.heads == 1 &&
                        (!has_positions(type.extent) || type.extent == Extent{});
  if (given && !is_table) {
    fail(cat("a rope table has coordinates ", describe(type), ": want an input of i32, of a step's rows or a tower's"));
    return false;
  }
  const bool fits = (rope.axes.empty() || rope.axes.size() == rope.inverse_frequencies.size()) &&
                    std::ranges::all_of(rope.axes, [&](uint32_t axis) { return axis < columns; });
  if (!fits)
    fail(cat("a rope table has ", rope.axes.size(), " axes for ", rope.inverse_frequencies.size(),
             " pairs: want one a pair, below ", columns));
  return fits;
}

State Recorder::add_state(StateDecl state, PageGroup group) {
  for (const StateDecl& known : program_.states)
    if (known.name == state.name) fail(cat("state ", state.name, " is declared twice: want one of that name"));
  auto& groups = program_.groups;
  const auto known = std::find(groups.begin(), groups.end(), group);
  state.group = static_cast<uint32_t>(known - groups.begin());
  if (known == groups.end()) groups.push_back(group);
  program_.states.push_back(std::move(state));
  state_versions_.push_back(0);
  return {{.state = static_cast<uint32_t>(program_.states.size() - 1), .version = 0}};
}

State Recorder::paged_state(const std::string& name, uint32_t heads, uint32_t key_width, uint32_t value_width,
                            uint32_t window) {
  StateDecl state{.name = name, .heads = heads, .key_width = key_width, .value_width = value_width};
  if (!fits({.heads = heads, .width = key_width}) || !fits({.heads = heads, .width = value_width})) {
    fail(cat("state ", name, " has ", heads, " heads of ", key_width, " and ", value_width, ": want 1 to ", kMaxColumns,
             " columns"));
    state = {.name = name, .key_width = 1, .value_width = 1};
  }
  return add_state(std::move(state), {.window = window});
}

State Recorder::slot_state(const std::string& name, uint32_t heads, uint32_t key_width, uint32_t value_width) {
  StateDecl state{.name = name, .heads = heads, .key_width = key_width, .value_width = value_width};
  const CheckedSize elements = CheckedSize(heads) * key_width * value_width;
  if (!elements.fits(kMaxWeightElements) || elements.value() == 0u) {
    fail(cat("state ", name, " is [", heads, ", ", key_width, ", ", value_width, "]: want 1 to ", kMaxWeightElements,
             " elements"));
    state = {.name = name, .key_width = 1, .value_width = 1};
  }
  return add_state(std::move(state), {.kind = StateKind::slots});
}

void Recorder::name(Value value, const std::string& name, const std::vector<uint32_t>& heads) {
  if (has_name(program_.names, name)) fail(cat("name ", name, " is given twice: want one value of that name"));
  const ValueType type = value.type();
  for (const uint32_t head : heads)
    if (head >= type.heads) fail(cat("name ", name, " shows head ", head, " of ", describe(type), ": want one it has"));
  program_.names.push_back({.name = name, .value = value.id, .heads = heads});
}

void Recorder::output(Value value, const std::string& name) {
  if (has_name(program_.outputs, name)) fail(cat("output ", name, " is given twice: want one value of that name"));
  program_.outputs.push_back({.name = name, .value = value.id});
}

void Recorder::begin_block(BlockKind kind) {
  CHECK(!block_open_);
  block_open_ = true;
  program_.blocks.push_back({.kind = kind, .first_op = static_cast<uint32_t>(program_.ops.size())});
}

void Recorder::end_block() {
  CHECK(block_open_);
  block_open_ = false;
  program_.blocks.back().end_op = static_cast<uint32_t>(program_.ops.size());
  check_block(program_.blocks.back());
}

// A device with a kernel for a block relies on the block's form.
void Recorder::check_block(const Block& block) {
  const BlockDoc& doc = block_doc(block.kind);
  if (!has_form(program_, block)) fail(cat("block ", doc.name, " has other ops: want ", doc.ops));
}

void Recorder::use_state(const char* name, StateRef ref, uint32_t want) {
  if (ref.state >= state_versions_.size() || ref.version == want) return;
  fail(cat(name, " is version ", ref.version, " of ", program_.states[ref.state].name, ": want version ", want,
           ", its latest"));
}

void Recorder::record(const Op& op) {
  if (const Status checked = check_op(op, program_); !checked) fail(checked.error().text);
  struct States : OperandVisitor {
    Recorder& recorder;
    explicit States(Recorder& r) : recorder(r) {}
    uint32_t latest(StateRef ref) const {
      return ref.state < recorder.state_versions_.size() ? recorder.state_versions_[ref.state] : 0;
    }
    void reads(const char* name, StateRef ref, const char*) { recorder.use_state(name, ref, latest(ref)); }
    void writes(const char*, StateRef ref, const char*) {
      if (ref.state < recorder.state_versions_.size()) ++recorder.state_versions_[ref.state];
    }
  };
  visit_operands(op, States(*this));
  program_.ops.push_back(op);
  program_.layers.push_back(layer_);
}

Result<Program> Recorder::finish() {
  CHECK(!block_open_);
  if (!first_problem_.empty()) return Error{ErrorKind::invalid, first_problem_};
  return std::move(program_);
}

Value embed(Value ids, Weight table, float scale) {
  Embed op{.ids = ids.id, .weight = table.id, .scale = scale};
  if (has_positions(ids.type().extent) && ids.type().width == 1) op.adapter = ids.recorder->embedding_adapter_of(table);
  if (op.adapter) op.adapter_tokens = ids.id;
  return record_with_result(ids, op);
}

Value linear(Value x, Weight weight) {
  Linear op{.x = x.id, .weight = weight.id};
  // Rows of a tower have no slots.
  if (has_positions(x.type().extent)) op.adapter = x.recorder->adapter_of(weight);
  return record_with_result(x, op);
}

Value rms_norm(Value x, Weight weight, float eps) {
  if (!weight) x.recorder->fail("rms_norm: weight is missing");
  return record_with_result(x, RmsNorm{.x = x.id, .weight = weight.id, .eps = eps});
}
Value rms_norm(Value x, float eps) { return record_with_result(x, RmsNorm{.x = x.id, .eps = eps}); }

Value l2_norm(Value x, float eps) { return record_with_result(x, L2Norm{.x = x.id, .eps = eps}); }

Value layer_norm(Value x, Weight weight, Weight bias, float eps) {
  return record_with_result(x, LayerNorm{.x = x.id, .weight = weight.id, .bias = bias.id, .eps = eps});
}

Value add(Value a, Value b) {
  check_same(a, b);
  return record_with_result(a, Add{.a = a.id, .b = b.id});
}
Value add(Value x, Weight bias) { return record_with_result(x, AddBias{.x = x.id, .bias = bias.id}); }
Value mul(Value a, Value b) {
  check_same(a, b);
  return record_with_result(a, Mul{.a = a.id, .b = b.id});
}

Value scale(Value x, float factor) { return record_with_result(x, Scale{.x = x.id, .factor = factor}); }
Value scale(Value x, Weight weight, float factor) {
  if (!weight) x.recorder->fail("scale: weight is missing");
  return record_with_result(x, Scale{.x = x.id, .factor = factor, .weight = weight.id});
}

Value clamp(Value x, Weight low, Weight high) {
  return record_with_result(x, Clamp{.x = x.id, .low = low.id, .high = high.id});
}

Value softcap(Value x, float cap) { return record_with_result(x, Softcap{.x = x.id, .cap = cap}); }

Value activation(Value x, ActivationKind kind) { return record_with_result(x, Activation{.x = x.id, .kind = kind}); }

Value gated_activation(Value gate, Value up, ActivationKind kind) {
  check_same(gate, up);
  return record_with_result(gate, GatedActivation{.gate = gate.id, .up = up.id, .kind = kind});
}

Value rope(Value x, RopeId table, uint32_t first) {
  return record_with_result(x, Rope{.x = x.id, .table = table, .first = first});
}

State append(State state, Value k, Value v) {
  check_same(k, v);
  StateRef next = state.ref;
  ++next.version;
  k.recorder->record(Append{.state = state.ref, .k = k.id, .v = v.id, .next = next});
  return {next};
}

Value attention(Value q, State state, const AttentionOptions& options) {
  return record_attention(q, Attention{.q = q.id, .state = state.ref}, options);
}

Value attention(Value q, const KeyValue& own, const AttentionOptions& options) {
  check_same(q, own.key);
  check_same(q, own.value);
  return record_attention(q, Attention{.q = q.id, .k = own.key.id, .v = own.value.id}, options);
}

KeyValue expand(Value latent, Value shared, const Expansion& weights) {
  check_same(latent, shared);
  Recorder& recorder = *latent.recorder;
  Expand op{.latent = latent.id, .shared = shared.id, .weights = weights};
  const Value key = recorder.new_value(op.key_result(recorder.program()));
  const Value value = recorder.new_value(op.value_result(recorder.program()));
  op.key = key.id;
  op.value = value.id;
  recorder.record(op);
  return {.key = key, .value = value};
}

Stepped short_conv(Value x, State state, Weight weight) {
  const StateRef next{.state = state.ref.state, .version = state.ref.version + 1};
  const Value out = record_with_result(x, ShortConv{.x = x.id, .weight = weight.id, .state = state.ref, .next = next});
  return {out, {next}};
}

DeltaGate delta_gates(Value a, Value b, Weight rate, Weight bias) {
  check_same(a, b);
  Recorder& recorder = *a.recorder;
  DeltaGates op{.a = a.id, .b = b.id, .rate = rate.id, .bias = bias.id};
  const Value decay = recorder.new_value(op.result(recorder.program()));
  const Value beta = recorder.new_value(op.result(recorder.program()));
  op.decay = decay.id;
  op.beta = beta.id;
  recorder.record(op);
  return {.decay = decay, .beta = beta};
}

Stepped delta_rule(Value q, Value k, Value v, const DeltaGate& gate, State state, const DeltaOptions& options) {
  for (const Value other : {k, v, gate.decay, gate.beta}) check_same(q, other);
  const StateRef next{.state = state.ref.state, .version = state.ref.version + 1};
  const Value out = record_with_result(q, DeltaRule{.q = q.id,
                                                    .k = k.id,
                                                    .v = v.id,
                                                    .decay = gate.decay.id,
                                                    .beta = gate.beta.id,
                                                    .state = state.ref,
                                                    .scale = options.scale,
                                                    .key_heads = options.key_heads,
                                                    .next = next});
  return {out, {next}};
}

Routed route(Value logits, const RouteOptions& options) {
  Recorder& recorder = *logits.recorder;
  Route op{.logits = logits.id,
           .k = options.k,
           .scoring = options.scoring,
           .normalise = options.normalise,
           .scale = options.scale,
           .groups = options.groups,
           .groups_used = options.groups_used,
           .bias = options.bias.id,
           .per_expert_scale = options.per_expert_scale.id};
  const Value index = recorder.new_value(op.index_result(recorder.program()));
  const Value weight = recorder.new_value(op.weight_result(recorder.program()));
  op.index = index.id;
  op.weight = weight.id;
  recorder.record(op);
  return {.index = index, .weight = weight};
}

Value experts(Value x, Routed routed, Weight gate, Weight up, Weight down, ActivationKind kind) {
  check_same(x, routed.index);
  check_same(x, routed.weight);
  Experts op{.x = x.id,
             .index = routed.index.id,
             .weight = routed.weight.id,
             .gate = gate.id,
             .up = up.id,
             .down = down.id,
             .kind = kind};
  if (!has_positions(x.type().extent)) return record_with_result(x, op);
  const AdapterOperand of_gate = x.recorder->adapter_of(gate), of_up = x.recorder->adapter_of(up),
                       of_down = x.recorder->adapter_of(down);
  for (const AdapterOperand& one : {of_gate, of_up, of_down})
    if (one) op.adapters.slots = one.slots, op.adapters.scales = one.scales;
  op.adapters.gate_a = of_gate.a, op.adapters.gate_b = of_gate.b;
  op.adapters.up_a = of_up.a, op.adapters.up_b = of_up.b;
  op.adapters.down_a = of_down.a, op.adapters.down_b = of_down.b;
  return record_with_result(x, op);
}

Value gather(Value x, Value index) {
  check_same(x, index);
  return record_with_result(x, Gather{.x = x.id, .index = index.id});
}

Value scatter(Value x, Value index, Value rows) {
  check_same(x, index);
  check_same(x, rows);
  return record_with_result(x, Scatter{.x = x.id, .index = index.id, .rows = rows.id});
}

Value pool(Value x, float factor) { return record_with_result(x, Pool{.x = x.id, .factor = factor}); }
Value pool(Value x, Value shares, float factor) {
  check_same(x, shares);
  return record_with_result(x, Pool{.x = x.id, .shares = shares.id, .factor = factor});
}

Value slice(Value x, uint32_t first_head, uint32_t heads, uint32_t stride) {
  return record_with_result(x, Slice{.x = x.id, .first_head = first_head, .heads = heads, .stride = stride});
}

Value clustered_logits(Value x, Value scores, Weight table, Weight order, uint32_t k) {
  check_same(x, scores);
  return record_with_result(
      x, ClusteredLogits{.x = x.id, .scores = scores.id, .table = table.id, .order = order.id, .k = k});
}

Value sample(Value logits) { return record_with_result(logits, Sample{.logits = logits.id}); }

Value heads(Value x, uint32_t count) {
  ValueType type = x.type();
  if (count != 0 && type.heads == 1 && type.width % count == 0) {
    type.heads = count;
    type.width /= count;
    return x.recorder->view(x, type);
  }
  x.recorder->fail(cat("heads: x is ", describe(type), ": want one head that divides into ", count));
  return x;
}

Value flatten(Value x) {
  ValueType type = x.type();
  type.width *= std::exchange(type.heads, 1u);
  return x.recorder->view(x, type);
}

Value fold(Value x, uint32_t ratio) {
  ValueType type = x.type();
  if (ratio != 0 && type.heads == 1 && type.extent.ratio % ratio == 0) {
    type.heads = ratio;
    type.extent.ratio /= ratio;
    return x.recorder->view(x, type);
  }
  x.recorder->fail(cat("fold: x is ", describe(type), ": want one head, and rows that are whole groups of ", ratio));
  return x;
}

Value unfold(Value x) {
  ValueType type = x.type();
  if (type.extent.symbol == Symbol::wanted)
    x.recorder->fail(cat("unfold: x is ", describe(type), ": want rows that are not picked out"));
  type.extent.ratio *= std::exchange(type.heads, 1u);
  return x.recorder->view(x, type);
}

Value gated_mlp(Value x, Weight gate, Weight up, Weight down, ActivationKind kind) {
  Recorder& recorder = *x.recorder;
  recorder.begin_block(BlockKind::gated_mlp);
  const Value g = linear(x, gate);
  const Value u = linear(x, up);
  const Value out = linear(gated_activation(g, u, kind), down);
  recorder.end_block();
  return out;
}

}  // namespace sluice
