// Parity cases of add, add_bias, mul, scale, clamp, softcap, activation and gated_activation.
#include "graph/cases.h"

namespace sluice {
namespace {

constexpr Fill kLarge{.low = -1e6f, .high = 1e6f};
constexpr const char* kKindNames[kActivationKinds] = {"gelu_tanh", "silu", "sigmoid", "relu", "gelu"};

// Cases of out = f(x): `record` gets the builder and an input.
template <class F>
std::vector<OpCase> unary_cases(const std::string& name, const std::vector<Fill>& fills, F record) {
  std::vector<OpCase> cases;
  for (const uint32_t width : kWidths)
    for (const Fill& fill : fills) {
      const uint32_t heads = width == 7 ? 3 : 1;
      CaseBuilder c(cat(name, ", ", heads, " heads of ", width, ", inputs to ", fill.high));
      c.output(record(c, c.input(width, heads, fill)));
      c.row_steps(width == 33 ? kRowCounts : kFewRows);
      cases.push_back(c.done());
    }
  return cases;
}

template <class F>
std::vector<OpCase> kind_cases(const std::vector<Fill>& fills, F record) {
  std::vector<OpCase> all;
  for (int kind = 0; kind < kActivationKinds; ++kind)
    for (OpCase& one : unary_cases(kKindNames[kind], fills, [&](CaseBuilder& c, Value x) {
           return record(c, x, static_cast<ActivationKind>(kind));
         }))
      all.push_back(std::move(one));
  return all;
}

Value like(CaseBuilder& c, Value x, Fill fill = {}) { return c.input(x.type().width, x.type().heads, fill); }

}  // namespace

std::vector<OpCase> Add::cases() {
  return unary_cases("add", {{}, kLarge}, [](CaseBuilder& c, Value x) { return add(x, like(c, x)); });
}

std::vector<OpCase> AddBias::cases() {
  std::vector<OpCase> cases;
  for (const Format format : {Format::f32, Format::bf16})
    for (OpCase& one : unary_cases(format_name(format), {{}, kLarge}, [&](CaseBuilder& c, Value x) {
           const auto columns = static_cast<uint32_t>(x.type().columns());
           return add(x, c.weight({.columns = columns}, format, {.low = -2, .high = 2}));
         }))
      cases.push_back(std::move(one));
  return cases;
}

std::vector<OpCase> Mul::cases() {
  return unary_cases("mul", {{}, kLarge}, [](CaseBuilder& c, Value x) { return mul(x, like(c, x, kLarge)); });
}

std::vector<OpCase> Scale::cases() {
  std::vector<OpCase> cases = unary_cases("factor", {{}}, [](CaseBuilder&, Value x) { return scale(x, 0.017f); });
  for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
    for (OpCase& one : unary_cases(cat(format_name(format), " scalar"), {kLarge}, [&](CaseBuilder& c, Value x) {
           return scale(x, c.weight({.columns = 1}, format, {.low = 0.5f}));
         }))
      cases.push_back(std::move(one));
    for (OpCase& one : unary_cases(cat(format_name(format), " vector"), {{}}, [&](CaseBuilder& c, Value x) {
           const auto columns = static_cast<uint32_t>(x.type().columns());
           return scale(x, c.weight({.columns = columns}, format), 0.25f);
         }))
      cases.push_back(std::move(one));
  }
  return cases;
}

// Bounds that bite on both sides, and one that no number reaches.
std::vector<OpCase> Clamp::cases() {
  std::vector<OpCase> cases = unary_cases("both bounds", {{}, kLarge}, [](CaseBuilder& c, Value x) {
    const Weight low = c.weight({.columns = 1}, Format::f32, {.low = -0.5f, .high = -0.4f});
    return clamp(x, low, c.weight({.columns = 1}, Format::bf16, {.low = 0.25f, .high = 0.3f}));
  });
  for (OpCase& one : unary_cases("low bound", {{}}, [](CaseBuilder& c, Value x) {
         const Weight low = c.weight({.columns = 1}, Format::f32, {.low = 0.1f, .high = 0.2f});
         return clamp(x, low, c.weight({.columns = 1}, Format::f32, {.low = 1e30f, .high = 1e30f}));
       }))
    cases.push_back(std::move(one));
  return cases;
}

std::vector<OpCase> Softcap::cases() {
  const std::vector<Fill> fills = {{}, {.low = -100, .high = 100}, {.low = -1e4f, .high = 1e4f}};
  return unary_cases("cap 30", fills, [](CaseBuilder&, Value x) { return softcap(x, 30.0f); });
}

std::vector<OpCase> Activation::cases() {
  const std::vector<Fill> fills = {
      {.low = -0.01f, .high = 0.01f}, {.low = -6, .high = 6}, {.low = -1e4f, .high = 1e4f}};
  return kind_cases(fills, [](CaseBuilder&, Value x, ActivationKind kind) { return activation(x, kind); });
}

std::vector<OpCase> GatedActivation::cases() {
  const std::vector<Fill> fills = {{.low = -6, .high = 6}, {.low = -1e4f, .high = 1e4f}};
  std::vector<OpCase> cases = kind_cases(fills, [](CaseBuilder& c, Value x, ActivationKind kind) {
    return gated_activation(x, like(c, x, {.low = -300, .high = 300}), kind);
  });
  for (OpCase& one : unary_cases("one column of sigmoid", {fills[0]}, [](CaseBuilder& c, Value x) {
         return gated_activation(c.input(1, 1, {.low = -6, .high = 6}), x, ActivationKind::sigmoid);
       }))
    cases.push_back(std::move(one));
  // A gated linear unit: the second half is the first one's gate.
  for (OpCase& one : unary_cases("halves", {fills[0]}, [](CaseBuilder& c, Value x) {
         const Value both = heads(c.input(2 * static_cast<uint32_t>(x.type().columns()), 1, {.low = -6, .high = 6}), 2);
         const Value value = slice(both, 0, 1), gate = slice(both, 1, 1);
         return add(flatten(x), gated_activation(gate, value, ActivationKind::sigmoid));
       }))
    cases.push_back(std::move(one));
  return cases;
}

}  // namespace sluice
