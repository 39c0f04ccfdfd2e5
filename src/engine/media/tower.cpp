#include "engine/media/tower.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/threads.h"

namespace sluice {
namespace {

StepMaxima maxima_of(uint32_t rows) {
  StepMaxima maxima;
  maxima.counts = {{Symbol::media_rows, rows}};
  return maxima;
}

Result<PlanRequest> plan_request(const TowerModel& model, Arithmetic arithmetic, uint32_t rows) {
  PlanRequest request{.program = &model.program, .arithmetic = arithmetic, .maxima = maxima_of(rows), .pages = {}};
  request.round_to_bf16 = true;
  TRY(request.weights, placed_shapes(model.program, *model.weights));
  return request;
}

Result<uint32_t> input_index(const Program& program, const std::string& name) {
  for (uint32_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].name == name) return i;
  return error(ErrorKind::invalid, "tower: has no input ", name, ": want one of its program");
}

}  // namespace

Result<ValueId> tower_rows(const Program& program) {
  const auto found = std::ranges::find(program.outputs, "rows", &NamedValue::name);
  if (found != program.outputs.end()) return found->value;
  return error(ErrorKind::unsupported, "tower: has no output rows: want one");
}

Status fill_tower_inputs(const TowerInputs& inputs, StepBuffer& step) {
  const Program& program = step.program();
  if (inputs.inputs.size() != program.inputs.size())
    return error(ErrorKind::invalid, "tower: is given ", inputs.inputs.size(), " inputs: want ", program.inputs.size());
  for (const TowerInput& input : inputs.inputs) {
    TRY(const uint32_t index, input_index(program, input.name));
    const bool is_f32 = program.values[program.inputs[index].value].type.element == Element::f32;
    const std::span<std::byte> into =
        is_f32 ? std::as_writable_bytes(step.input_f32(index)) : std::as_writable_bytes(step.input_i32(index));
    const std::span<const std::byte> from = std::as_bytes(std::span(input.words));
    if (into.size() != from.size()) {
      return error(ErrorKind::invalid, "tower: input ", input.name, " is of ", from.size() / sizeof(uint32_t),
                   " elements: want ", into.size() / sizeof(uint32_t));
    }
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
  }
  step.fill_ropes();
  return {};
}

Result<std::vector<MemoryLine>> Tower::memory(const TowerModel& model, const Device& device, Arithmetic arithmetic,
                                              uint32_t rows) {
  TRY(const PlanRequest request, plan_request(model, arithmetic, rows));
  TRY(const std::unique_ptr<Plan> plan, device.plan(request));
  std::vector<MemoryLine> lines = plan->memory();
  lines.push_back({Domain::host, Purpose::staging, StepBuffer::bytes(model.program, request.maxima)});
  if (device.info().memory != Domain::host) return lines;
  TRY(const uint64_t tables, HeldWeights::table_bytes(model.program, *model.weights));
  if (tables != 0) lines.push_back({Domain::host, Purpose::weights, tables});
  return lines;
}

Result<std::unique_ptr<Tower>> Tower::create(const TowerModel& model, Device& device, Budget& budget,
                                             Arithmetic arithmetic, uint32_t rows) {
  TRY_STATUS(tower_rows(model.program));
  TRY(const PlanRequest request, plan_request(model, arithmetic, rows));
  TRY(std::unique_ptr<Plan> plan, device.plan(request));
  TRY_STATUS(budget.has_room(plan->memory()));
  TRY(Reservation reserved,
      budget.reserve(Domain::host, Purpose::staging, StepBuffer::bytes(model.program, request.maxima)));
  std::unique_ptr<HeldWeights> held;
  if (device.info().memory == Domain::host)
    TRY_ASSIGN(held, HeldWeights::take(model.program, *model.weights, /*streams=*/false, budget));
  const WeightSource* const weights = held != nullptr ? held.get() : model.weights;
  TRY(std::unique_ptr<Runner> runner, device.place(std::move(plan), *weights, budget));
  std::unique_ptr<Tower> tower(new Tower(model, device, std::move(runner), request.maxima, rows));
  tower->reserved_ = std::move(reserved);
  tower->held_ = std::move(held);
  return tower;
}

Tower::Tower(const TowerModel& model, const Device& device, std::unique_ptr<Runner> runner, const StepMaxima& maxima,
             uint32_t rows)
    : model_(&model),
      computes_in_poll_(device.info().plays_in_pieces),
      most_rows_(rows),
      step_(model.program, maxima),
      runner_(std::move(runner)) {}

Status Tower::start(const TowerInputs& inputs, std::span<float> rows) {
  CHECK(!busy() && inputs.rows <= most_rows_);
  step_.reset(TokenClass::prompt, {{Symbol::media_rows, inputs.rows}}, 0, 0);
  TRY_STATUS(fill_tower_inputs(inputs, step_));
  TRY(const ValueId value, tower_rows(model_->program));
  CHECK(rows.size() == uint64_t{inputs.rows} * model_->program.values[value].type.columns());
  const ReadRequest read{value, std::as_writable_bytes(rows)};
  ticket_ = runner_->start(step_, std::span(&read, 1), {.in_pieces = true});
  return {};
}

Status Tower::run(const TowerInputs& inputs, std::span<float> rows) {
  TRY_STATUS(start(inputs, rows));
  for (;;) {
    if (std::optional<Status> ended = poll()) return *std::move(ended);
    if (!computes_in_poll_) wait_a_moment();
  }
}

std::optional<Status> Tower::poll() {
  while (ticket_) {
    std::optional<Completion> completion = runner_->poll();
    if (!completion) return std::nullopt;
    if (completion->ticket != *ticket_) continue;
    ticket_.reset();
    return std::move(completion->status);
  }
  return std::nullopt;
}

}  // namespace sluice
