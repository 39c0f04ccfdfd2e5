#include "engine/trace.h"

#include <numeric>

#include "base/threads.h"
#include "engine/plan/layout.h"
#include "engine/state/pages.h"
#include "engine/step_fill.h"

namespace sluice {
namespace {

Status wait(Runner& runner, Ticket ticket) {
  for (;;) {
    const std::optional<Completion> completion = runner.poll();
    if (completion && completion->ticket == ticket) return completion->status;
    if (!completion) wait_a_moment();
  }
}

// A plan for one step of `rows` rows, all wanted.
PlanRequest traced_plan(const Program& program, Arithmetic arithmetic, uint32_t rows) {
  PlanRequest request{.program = &program, .arithmetic = arithmetic, .maxima = {}, .pages = {}};
  request.traced = true;
  request.maxima = {.counts = text_counts(rows, rows), .sequences = 1, .pages_per_sequence = {}};
  for (const PageGroup& group : program.groups) {
    const uint32_t pages = group.kind == StateKind::slots ? kSlotEntries : pages_for(rows);
    request.maxima.pages_per_sequence.push_back(pages);
    request.pages.push_back(pages);
  }
  return request;
}

TracedValue room_for(const Program& program, const NamedValue& named, const StepBuffer& step) {
  const ValueType& type = program.values[named.value].type;
  TracedValue value{.name = named.name,
                    .rows = static_cast<size_t>(step.rows_of(type.extent)),
                    .columns = static_cast<size_t>(type.columns()),
                    .floats = {},
                    .integers = {}};
  const size_t elements = value.rows * value.columns;
  type.element == Element::f32 ? value.floats.resize(elements) : value.integers.resize(elements);
  return value;
}

std::span<std::byte> bytes_of(TracedValue& value) {
  return value.floats.empty() ? std::as_writable_bytes(std::span(value.integers))
                              : std::as_writable_bytes(std::span(value.floats));
}

// Puts heads into the order of NamedValue::heads.
void order_heads(TracedValue& value, const ValueType& type, const std::vector<uint32_t>& heads) {
  if (heads.empty() || type.element != Element::f32) return;
  std::vector<float> ordered;
  ordered.reserve(value.rows * heads.size() * type.width);
  for (size_t row = 0; row < value.rows; ++row) {
    for (const uint32_t head : heads) {
      const auto begin = value.floats.begin() + static_cast<std::ptrdiff_t>(row * value.columns + head * type.width);
      ordered.insert(ordered.end(), begin, begin + type.width);
    }
  }
  value.floats = std::move(ordered);
  value.columns = heads.size() * type.width;
}

Result<Trace> run_step(Runner& runner, const StepBuffer& step, const TextPorts& ports) {
  std::vector<NamedValue> named = step.program().names;
  named.push_back({"logits", ports.logits});
  Trace values;
  values.reserve(named.size());  // the reads point into them
  std::vector<ReadRequest> reads;
  for (const NamedValue& one : named) {
    values.push_back(room_for(step.program(), one, step));
    reads.push_back({one.value, bytes_of(values.back())});
  }
  TRY_STATUS(wait(runner, runner.start(step, reads)));
  for (size_t i = 0; i < named.size(); ++i)
    order_heads(values[i], step.program().values[named[i].value].type, named[i].heads);
  return values;
}

}  // namespace

Result<Trace> trace(const Program& program, const WeightSource& weights, Device& device, Budget& budget,
                    Arithmetic arithmetic, std::span<const int32_t> tokens) {
  if (tokens.empty()) return error(ErrorKind::invalid, "trace: has no tokens: want some");
  const auto rows = static_cast<uint32_t>(tokens.size());
  TRY(const TextPorts ports, find_ports(program));
  const uint64_t vocabulary = program.values[ports.logits].type.columns();
  TRY_STATUS(check_tokens("trace", tokens, static_cast<uint32_t>(vocabulary)));
  PlanRequest request = traced_plan(program, arithmetic, rows);
  TRY(request.weights, placed_shapes(program, weights));
  TRY(std::unique_ptr<Plan> plan, device.plan(request));
  TRY(const std::unique_ptr<Runner> runner, device.place(std::move(plan), weights, budget));

  Cache cache(program.groups, request.pages, false);
  CachedHistory text = cache.empty();
  for (const int32_t token : tokens) text.history.push_back({token, TokenClass::prompt});
  std::vector<PageCopy> copies;
  CHECK(cache.provide(text, rows, 1, copies));
  StepPart part{.sequence = &text, .begin = 0, .end = rows};
  part.wanted.resize(rows);
  std::iota(part.wanted.begin(), part.wanted.end(), 0u);
  StepBuffer step(program, request.maxima);
  fill_step(step, ports, TokenClass::prompt, std::span(&part, 1));
  return run_step(*runner, step, ports);
}

Result<Trace> trace(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic,
                    std::span<const int32_t> tokens) {
  TRY(const Program program, model.record_text({.all_named = true}));
  return trace(program, model.weights(), device, budget, arithmetic, tokens);
}

}  // namespace sluice
