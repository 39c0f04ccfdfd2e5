#include "graph/ops/attention.h"

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

}  // namespace

ValueType Rope::result(const Program& program) const { return type_of(program, x); }

Status Rope::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x);
  check.want(table < program.ropes.size(), "table is missing");
  const size_t pairs = table < program.ropes.size() ? program.ropes[table].inverse_frequencies.size() : 0;
  check.want(2 * pairs <= in.width, "x is ", describe(in), ": want heads of at least ", 2 * pairs,
             " elements as the table turns");
  check.step_rows("x", x);
  check.type("out", out, result(program));
  return check.status();
}

Status Append::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const StateDecl cache = check.state("state", state);
  check.value("k", k);
  check.type("k", k, {.heads = cache.heads, .width = cache.key_width});
  check.value("v", v);
  check.type("v", v, {.heads = cache.heads, .width = cache.value_width});
  check.want(next.state == state.state && next.version == state.version + 1, "next is not the version after state");
  return check.status();
}

ValueType Attention::result(const Program& program) const {
  ValueType type = type_of(program, q);
  type.width = state_of(program, state).value_width;
  return type;
}

Status Attention::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const StateDecl cache = check.state("state", state);
  const ValueType in = check.value("q", q);
  check.want(in.width == cache.key_width, "q is ", describe(in), ": want heads of ", cache.key_width,
             " elements as the keys of ", cache.name);
  check.want(in.heads % cache.heads == 0, "q is ", describe(in), ": want a multiple of the ", cache.heads, " heads of ",
             cache.name);
  check.step_rows("q", q);
  check.finite("scale", scale);
  if (softcap != 0) check.positive("softcap", softcap);
  check_window(check, program, cache, window);
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice
