#include "device/webgpu/plan.h"

#include <algorithm>

#include "device/placing.h"
#include "device/webgpu/formats/weight_format.h"
#include "device/webgpu/plan_objects.h"
#include "graph/op_check.h"

namespace sluice::webgpu {
namespace {

Status check_cache(const PlanRequest& request) {
  const Format cache = request.cache.value_or(Format::f32);
  if (cache != Format::f32 && cache != Format::f16 && cache != Format::bf16)
    return error(ErrorKind::unsupported, "cache: found elements of ", format_name(cache), ": want f32, f16 or bf16");
  if (request.arithmetic == Arithmetic::exact && cache != Format::f32)
    return error(ErrorKind::invalid, "cache: found elements of ", format_name(cache), " in exact arithmetic: want f32");
  return {};
}

FusionLimits limits_of(const PlanRequest& request, const Adapter& adapter) {
  if (!request.whole_sequences) return kFusionLimits;
  return training_limits(adapter.matrices && request.arithmetic == Arithmetic::fast);
}

// Embedded rows are decoded by the host before the step.
Status check_embeds(const Program& program) {
  for (const Op& op : program.ops)
    if (const auto* embed = std::get_if<Embed>(&op); embed != nullptr && is_decoded_by_host(program, *embed))
      if (std::none_of(program.inputs.begin(), program.inputs.end(),
                       [&](const NamedValue& input) { return input.value == embed->ids; }))
        return error(ErrorKind::unsupported, "embed: found ids that an op makes: want an input of the program");
  return {};
}

// The factors of all ops' adapters.
std::vector<WeightId> adapter_factors(const Program& program) {
  std::vector<WeightId> factors;
  const auto take = [&](std::initializer_list<AdapterOperand> adapters) {
    for (const AdapterOperand& one : adapters)
      if (one) factors.insert(factors.end(), {one.a, one.b});
  };
  for (const Op& op : program.ops) {
    if (const auto* linear = std::get_if<Linear>(&op)) take({linear->adapter});
    if (const auto* experts = std::get_if<Experts>(&op))
      take({experts->adapters.gate(), experts->adapters.up(), experts->adapters.down()});
    if (const auto* attention = std::get_if<Attention>(&op))
      take({attention->expand.key_adapter, attention->expand.value_adapter});
    if (const auto* loss = std::get_if<CrossEntropy>(&op); loss != nullptr && loss->b != kNone)
      factors.push_back(loss->b);
  }
  return factors;
}

}  // namespace

Result<std::unique_ptr<WebGpuPlan>> WebGpuPlan::make(const DeviceInfo& info, const PlanRequest& request,
                                                     const Adapter& adapter) {
  const Program& program = *request.program;
  const WeightUses uses = weight_uses(program);
  const auto takes = [&](WeightId id) {
    const PlacedShape& placed = request.weights[id];
    if (uses.matrix[id]) return weight_format(device_format(placed.format, placed.in_parts)) != nullptr;
    return placed.in_parts || format_info(placed.format).decodable;
  };
  TRY_STATUS(check_planned(info, request, "one that webgpu computes with", takes));
  TRY_STATUS(check_cache(request));
  TRY_STATUS(check_embeds(program));
  std::unique_ptr<WebGpuPlan> plan(new WebGpuPlan(request, adapter));
  TRY_STATUS(plan->check_sizes());
  return plan;
}

WebGpuPlan::WebGpuPlan(const PlanRequest& request, const Adapter& adapter)
    : request_(request),
      adapter_(adapter),
      runs_(request.traced ? std::vector<FusedRun>() : find_runs(*request.program, limits_of(request, adapter))),
      layout_(request_, adapter_, op_ranges(runs_)),
      trained_(lay_out_trained(request_, layout_, adapter_)) {
  uint64_t scratch = 0;
  for (const TokenClass token_class : kTokenClasses) {
    if (token_class == TokenClass::decode && request.whole_sequences) continue;
    dispatches_[token_class] = Emitter(request_, layout_, adapter_, token_class, runs_).emit_all(false);
    scratch = std::max(scratch, dispatches_[token_class].scratch_words);
  }
  memory_words_ = std::max<uint64_t>(layout_.scratch() + scratch, 16);
  for (uint32_t i = 0; i < program().states.size(); ++i)
    bounce_bytes_ = std::max(bounce_bytes_, layout_.state(i).page_words * 4);
}

Dispatches WebGpuPlan::looking_dispatches(TokenClass token_class) const {
  return Emitter(request_, layout_, adapter_, token_class, {}).emit_all(true);
}

Dispatches WebGpuPlan::trained_dispatches(TrainedWork work) const {
  return Emitter(request_, layout_, adapter_, TokenClass::prompt, {}).emit_trained(work, trained_);
}

// Checks that every binding is small enough.
Status WebGpuPlan::check_sizes() const {
  const auto check = [&](const std::string& what, uint64_t bytes, const char* want) -> Status {
    if (bytes <= adapter_.binding_bytes) return {};
    return error(ErrorKind::out_of_memory, "webgpu: ", what, ": found ", bytes, " bytes: want ", want, ", at most ",
                 adapter_.binding_bytes, " for this GPU");
  };
  TRY_STATUS(check("activations", memory_bytes(), "fewer rows a step"));
  TRY_STATUS(check("small weights", layout_.factor_words() * 4, "fewer"));
  for (uint32_t i = 0; i < program().states.size(); ++i)
    TRY_STATUS(check(cat("state ", program().states[i].name), layout_.state_bytes(i), "fewer pages"));
  for (uint32_t buffer = 0; buffer < layout_.slots().buffers(); ++buffer)
    TRY_STATUS(check("slots for experts", layout_.slots().bytes(buffer), "smaller experts"));
  // Slots of adapters are bound together.
  for (const WeightId id : adapter_factors(program()))
    TRY_STATUS(check(cat("weight ", program().weights[id].name), layout_.all_tile_bytes(id), "fewer slots"));
  for (WeightId id = 0; id < program().weights.size(); ++id)
    for (uint32_t tile = 0; tile < layout_.matrix(id).tiles.size(); ++tile)
      TRY_STATUS(check(cat("weight ", program().weights[id].name), layout_.tile_bytes(id, tile), "smaller rows"));
  return {};
}

std::vector<MemoryLine> WebGpuPlan::memory_with(uint64_t matrix_bytes) const {
  return {{Domain::device(), Purpose::weights, matrix_bytes + layout_.slots().bytes() + layout_.factor_words() * 4},
          {Domain::device(), Purpose::state, layout_.all_state_bytes() + bounce_bytes_},
          {Domain::device(), Purpose::activations, memory_bytes()},
          {Domain::device(), Purpose::adapters, trained_.bytes()},
          {Domain::host, Purpose::staging, kStagingBytes}};
}

std::string WebGpuPlan::numerics_id() const {
  const char* arithmetic = request_.arithmetic == Arithmetic::exact ? "/exact/" : "/fast/";
  return cat("webgpu/", adapter_.description, ", ", adapter_.driver, arithmetic, format_name(layout_.cache()), "kv",
             adapter_.matrices ? "/matrices" : "", "/v18");
}

}  // namespace sluice::webgpu
