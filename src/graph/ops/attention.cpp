#include "graph/ops/attention.h"

#include <utility>

#include "graph/op_check.h"

namespace sluice {
namespace {

void check_window(OpCheck& check, const Program& program, const StateDecl& state, uint32_t window) {
  if (state.group >= program.groups.size()) return;
  const uint32_t kept = program.groups[state.group].window;
  const bool sees_more = kept != 0 && (window == 0 || window > kept);
  check.want(!sees_more, "window is ", window == 0 ? std::string("without end") : cat(window), ": want at most the ",
             kept, " positions that ", state.name, " keeps");
}

// k and v: rows of the step for queries that have positions, else those of the queries.
void check_own_rows(OpCheck& check, const Attention& op) {
  const ValueType q = check.value("q", op.q), k = check.value("k", op.k);
  const Extent extent = has_positions(q.extent) ? Extent{Symbol::rows} : q.extent;
  check.type("k", op.k, {.extent = extent, .heads = k.heads, .width = k.width});
  const ValueType v = check.value("v", op.v);
  check.type("v", op.v, {.extent = extent, .heads = k.heads, .width = v.width});
  check.want(!op.has_cache(), "k is given over a cache: want it appended");
}

// The inputs that say what a row sees; who needs them.
void check_range(OpCheck& check, const Attention& op, const Program& program) {
  const ValueType q = type_of(program, op.q);
  for (const auto& [name, id] : {std::pair{"first", op.first}, {"last", op.last}}) {
    if (id == kNone) continue;
    check.type(name, id, {.extent = q.extent, .width = 1, .element = Element::i32});
    check.want(input_of(program, id) >= 0, name, " is computed: want an input of the program");
  }
  check.want(op.first == kNone || op.window == 0, "first is given with a window: want one of them");
  if (has_positions(q.extent)) return check.step_rows("q", op.q);
  check.want(!op.has_cache(), "q is ", describe(q), ": want rows that have a position over a cache");
  check.want(op.first != kNone && op.last != kNone, "q is ", describe(q),
             ": want first and last for rows without positions");
  check.want(op.window == 0, "window is ", op.window, ": want none for rows without positions");
}

void check_relative(OpCheck& check, const Attention& op, const KeyShape& shape, const ValueType& q) {
  if (op.relative == kNone) return;
  check.matrix("relative", op.relative, 1, check.weight("relative", op.relative).rows, shape.heads * shape.key_width);
  check.want(!has_positions(q.extent), "relative is given for ", describe(q), ": want rows without positions");
}

// Elements of a head's key that its matrix makes.
uint32_t nope_width(const Program& program, const Expansion& expand) {
  const WeightShape key = shape_of(program, expand.key);
  return expand.key_transposed ? key.columns : key.rows;
}

// Both weights: a matrix of each head for latents of that width.
void check_expansion(OpCheck& check, const Expansion& expand, uint32_t heads, uint32_t latent) {
  const WeightShape key = check.weight("key", expand.key), value = check.weight("value", expand.value);
  check.matrix("key", expand.key, heads, expand.key_transposed ? latent : key.rows,
               expand.key_transposed ? key.columns : latent);
  check.matrix("value", expand.value, heads, value.rows, latent);
}

void check_adapters(OpCheck& check, const Expansion& expand, ValueId q) {
  if (expand.key_adapter) expand.key_adapter.check(check, q, check.weight("key", expand.key));
  if (expand.value_adapter) expand.value_adapter.check(check, q, check.weight("value", expand.value));
}

}  // namespace

ValueType Rope::result(const Program& program) const { return type_of(program, x); }

Status Rope::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  const bool has_table = table < program.ropes.size();
  check.want(has_table, "table is missing");
  const size_t pairs = has_table ? program.ropes[table].inverse_frequencies.size() : 0;
  check.want(first + 2 * pairs <= in.width, "x is ", describe(in), ": want heads of at least ", first + 2 * pairs,
             " elements as the table turns");
  const Extent turned = has_table ? rope_extent(program, table) : Extent{};
  if (turned == Extent{})
    check.step_rows("x", x);
  else
    check.want(in.extent == turned, "x is ", describe(in), ": want rows of ",
               describe(type_of(program, program.ropes[table].coordinates)), ", the coordinates that turn them");
  check.type("out", out, result(program));
  return check.status();
}

Status Append::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const StateDecl cache = check.state("state", state, StateKind::paged);
  check.value("k", k);
  check.type("k", k, {.heads = cache.heads, .width = cache.key_width});
  check.value("v", v);
  check.type("v", v, {.heads = cache.heads, .width = cache.value_width});
  check.next(next, state);
  return check.status();
}

KeyShape Attention::keys(const Program& program) const {
  if (has_cache()) {
    const StateDecl cache = state_of(program, state);
    return {.heads = cache.heads, .key_width = cache.key_width, .value_width = cache.value_width};
  }
  const ValueType key = type_of(program, k);
  return {.heads = key.heads, .key_width = key.width, .value_width = type_of(program, v).width};
}

ValueType Attention::result(const Program& program) const {
  ValueType type = type_of(program, q);
  type.width = expand ? shape_of(program, expand.value).rows : keys(program).value_width;
  return type;
}

Status Attention::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("q", q);
  std::string called = "k";
  if (has_cache() || !has_own_rows()) {
    const StateDecl cache = check.state("state", state, StateKind::paged);
    called = cache.name;
    // An input may ask for less than a window keeps; what it asks for is the engine's to see to.
    if (first == kNone) check_window(check, program, cache, window);
  }
  if (has_own_rows()) check_own_rows(check, *this);
  const KeyShape shape = keys(program);
  const uint32_t key_width = shape.key_width + (expand ? nope_width(program, expand) : 0);
  check.want(in.width == key_width, "q is ", describe(in), ": want heads of ", key_width, " elements as the keys of ",
             called);
  if (expand) {
    check.want(!has_own_rows(), "k is given: want none with latents");
    check.want(shape.heads == 1, called, " has ", shape.heads, " heads: want one of latents");
    check_expansion(check, expand, in.heads, shape.value_width);
    check_adapters(check, expand, q);
  }
  check.want(in.heads % shape.heads == 0, "q is ", describe(in), ": want a multiple of the ", shape.heads, " heads of ",
             called);
  check_range(check, *this, program);
  check_relative(check, *this, shape, in);
  check.finite("scale", scale);
  if (softcap != 0) check.positive("softcap", softcap);
  check.type("out", out, result(program));
  return check.status();
}

ValueType Expand::key_result(const Program& program) const {
  return {.extent = type_of(program, latent).extent,
          .heads = shape_of(program, weights.key).experts,
          .width = nope_width(program, weights) + type_of(program, shared).width};
}

ValueType Expand::value_result(const Program& program) const {
  const WeightShape matrix = shape_of(program, weights.value);
  return {.extent = type_of(program, latent).extent, .heads = matrix.experts, .width = matrix.rows};
}

Status Expand::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("latent", latent);
  check.want(in.heads == 1, "latent is ", describe(in), ": want one head");
  const ValueType other = check.value("shared", shared);
  check.want(other.heads == 1 && other.extent == in.extent, "shared is ", describe(other),
             ": want the rows of latent, ", describe(in));
  check_expansion(check, weights, shape_of(program, weights.key).experts, in.width);
  check.type("key", key, key_result(program));
  check.type("value", value, value_result(program));
  return check.status();
}

}  // namespace sluice
