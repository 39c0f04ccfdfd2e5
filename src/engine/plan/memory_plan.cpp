#include "engine/plan/memory_plan.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engine/draft/draft_head.h"
#include "engine/history.h"
#include "graph/cost.h"

namespace sluice {
namespace {

constexpr uint64_t kSmallStaging = 4 << 20;  // step buffers, and buffers of reads and answers

ExpertRoom expert_room(const Program& program, const std::vector<PlacedShape>& weights) {
  ExpertRoom room;
  for (const Op& op : program.ops) {
    const auto* const experts = std::get_if<Experts>(&op);
    if (experts == nullptr) continue;
    ++room.layers;
    room.experts = std::max(room.experts, program.weights[experts->gate].shape.experts);
    room.used = std::max(room.used, program.values[experts->index].type.width);
    for (const WeightId weight : {experts->gate, experts->up, experts->down}) room.bytes += weights[weight].bytes;
  }
  return room;
}

uint64_t table_bytes(const Program& program, const std::vector<PlacedShape>& weights) {
  const std::vector<WeightUse> uses = weight_uses(program);
  uint64_t bytes = 0;
  for (size_t i = 0; i < uses.size(); ++i)
    if (uses[i] == WeightUse::rows) bytes += weights[i].bytes;
  return bytes;
}

// The memory for drafting by the model's own head. The head is planned before the text, because a metered device keeps
// the last plan.
Result<std::vector<MemoryLine>> draft_memory(const Model& model, const TextModel& text, const Device& device,
                                             const EngineOptions& options) {
  if (!options.draft.has_head()) return std::vector<MemoryLine>{};
  TRY(Program program, model.record(ProgramKind::draft_head));
  const DraftModel head{.program = std::move(program), .weights = &model.weights_of(ProgramKind::draft_head)};
  const uint32_t context = options.context != 0 ? options.context : text.context;
  const uint32_t rows = make_layout(text, options, {.context = context}).maxima.counts[Symbol::rows];
  return DraftHead::memory(head, device, {options.arithmetic, rows, options.sequences, context});
}

void add_line(std::vector<MemoryLine>& lines, const MemoryLine& more) {
  if (more.bytes == 0) return;
  for (MemoryLine& line : lines) {
    if (line.domain != more.domain || line.purpose != more.purpose) continue;
    line.bytes += more.bytes;
    return;
  }
  lines.push_back(more);
}

// Plans slots if the device has them and the experts lie in files. Without `streams` it plans none and only learns the
// sizes of a slot and of its reads.
ExpertSlots plan_slots(TextModel& text, ExpertRoom& room, const WeightFiles& files, const Device& device,
                       bool streams) {
  if (room.layers == 0 || !device.info().expert_slots) return {};
  const auto places = ExpertPlaces::find(text.program, *text.weights, files);
  if (!places) return {};
  room.slot_bytes = room.read_bytes = places->slot_bytes();
  room.reads = places->place(0, 0).reads.size();
  if (!streams) return {};
  text.program = streaming_program(std::move(text.program));
  return {.count = room.used, .bytes = places->slot_bytes()};
}

// Bytes of experts within the lines of a device's plan.
struct PlannedExperts {
  uint64_t in_file = 0;    // in lines of mapped and packed weights
  uint64_t in_memory = 0;  // in lines of weights
};

// If the device keeps experts in a form of its own, the sizes in `room` become those of that form.
PlannedExperts planned_experts(ExpertRoom& room, const Plan& planned, const ExpertSlots& slots) {
  const bool streams = slots.count != 0;
  const uint64_t in_file = streams ? 0 : room.bytes;
  const uint64_t own = planned.expert_bytes();
  if (own == 0) return {.in_file = in_file, .in_memory = slots.count * slots.bytes};
  room.bytes = room.count() * own;
  if (room.slot_bytes != 0) room.slot_bytes = own;
  return {.in_file = in_file, .in_memory = (streams ? slots.count : room.count()) * own};
}

// Adds the lines of the device's plan without the experts in them.
void add_device_lines(std::vector<MemoryLine>& lines, const Plan& planned, PlannedExperts experts) {
  for (MemoryLine line : planned.memory()) {
    uint64_t* counted = nullptr;
    if (line.purpose == Purpose::mapped_weights || line.purpose == Purpose::packed_weights)
      counted = &experts.in_file;
    else if (line.purpose == Purpose::weights)
      counted = &experts.in_memory;
    if (counted != nullptr) {
      const uint64_t of_experts = std::min(line.bytes, *counted);
      line.bytes -= of_experts;
      *counted -= of_experts;
    }
    add_line(lines, line);
  }
}

// Sets plan.model to the text program as it will be placed, with leased rows if the options say so. Returns its slots.
Result<ExpertSlots> plan_model(MemoryPlan& plan, const Model& model, const WeightFiles& files, const Device& device,
                               const EngineOptions& options, bool streams) {
  TRY(TextModel text, text_model(model, text_options(options)));
  TRY(plan.adapters, AdapterSlots::plan(text.program, *text.weights, options.adapters, options.adapter_room));
  if (plan.adapters) text.weights = plan.adapters.get();
  TRY(const std::vector<PlacedShape> weights, placed_shapes(text.program, *text.weights));
  plan.experts = expert_room(text.program, weights);
  plan.tables = table_bytes(text.program, weights);
  if (options.lease_rows) {
    TRY(const TextPorts ports, find_ports(text.program));
    TRY(plan.rows,
        RowStore::plan(text.program, ports.tokens, *text.weights, files, leased_rows(options, text.program)));
    if (plan.rows) text.weights = plan.rows.get();
  }
  const ExpertSlots slots = plan_slots(text, plan.experts, files, device, streams);
  plan.model = std::make_unique<const TextModel>(std::move(text));
  return slots;
}

// The plan for the chunk and repacking of `options`. `streams`: experts are streamed if they can be.
Result<MemoryPlan> plan_chunks(const Model& model, const WeightFiles& files, const Device& device, const Budget& budget,
                               const EngineOptions& options, bool streams) {
  MemoryPlan plan;
  plan.domain = device.info().memory;
  plan.repack = options.repack;
  plan.media = options.media;
  TRY(const ExpertSlots slots, plan_model(plan, model, files, device, options, streams));
  const TextModel& text = *plan.model;
  if (plan.domain == Domain::host) {
    TRY(const uint64_t tables, HeldWeights::table_bytes(text.program, *text.weights));
    add_line(plan.lines, {Domain::host, Purpose::weights, tables});
  }
  TRY(const std::vector<MemoryLine> draft, draft_memory(model, text, device, options));
  TRY(const PlannedText planned, plan_text(text, device, budget, options, slots));
  plan.context = planned.layout.context;
  plan.prompt_chunk = planned.layout.prompt_chunk;
  plan.draft = planned.layout.drafts == 0 ? DraftKind::none : options.draft.kind;
  add_device_lines(plan.lines, *planned.plan, planned_experts(plan.experts, *planned.plan, slots));
  for (const MemoryLine& line : draft) add_line(plan.lines, line);
  if (plan.adapters) add_line(plan.lines, {Domain::host, Purpose::adapters, plan.adapters->bytes()});
  if (plan.rows) add_line(plan.lines, {Domain::host, Purpose::weights, plan.rows->bytes()});
  const uint64_t logits = uint64_t{planned.layout.maxima.counts[Symbol::wanted]} * text.vocabulary * sizeof(float);
  add_line(plan.lines, {Domain::host, Purpose::staging, kSmallStaging + logits});
  return plan;
}

uint64_t bytes_in(Domain domain, const std::vector<MemoryLine>& lines) {
  uint64_t bytes = 0;
  for (const MemoryLine& line : lines)
    if (line.domain == domain) bytes += line.bytes;
  return bytes;
}

}  // namespace

uint64_t MemoryPlan::dense() const { return held + bytes_in(domain, lines) + bytes_in(domain, media); }

uint64_t MemoryPlan::slots() const {
  if (experts.slot_bytes == 0) return 0;
  return streams() ? std::min(slot_memory() / experts.slot_bytes, experts.count()) : experts.count();
}

uint32_t suited_chunk(const DeviceInfo& device, const Program& program) {
  return keeps_slots(program) ? std::min(device.prompt_rows, kSnapshotSpacing) : device.prompt_rows;
}

Result<MemoryPlan> plan_memory(const Model& model, const WeightFiles& files, const Device& device, const Budget& budget,
                               uint64_t limit, const EngineOptions& options) {
  EngineOptions tried = options;
  const auto plan_in = [&](const Budget& room, bool streams) -> Result<MemoryPlan> {
    TRY(MemoryPlan plan, plan_chunks(model, files, device, room, tried, streams));
    plan.held = budget.used(plan.domain);
    plan.limit = limit;
    return plan;
  };
  const auto plan_smallest = [&] {
    tried.prompt_chunk = kCut;
    tried.repack = Repack::never;
    Budget nothing;
    nothing.set_limit(device.info().memory, 0);
    return plan_in(nothing, /*streams=*/true);
  };
  TRY(MemoryPlan plan, plan_smallest());
  const uint64_t floor = plan.needed();
  tried.prompt_chunk = 2 * options.prompt_chunk;
  const auto leaves_rows = [&] { return plan.streams() && tried.prompt_chunk > kUsualPromptRows; };
  do {
    tried.prompt_chunk = std::max(kCut, cut_below(tried.prompt_chunk / 2));
    for (const Repack repack : {options.repack, Repack::never}) {
      tried.repack = repack;
      TRY(plan, plan_in(budget, /*streams=*/false));
      if (plan.recommended() > limit && may_leave_drafts(tried, plan.model->program)) {
        tried.draft.kind = DraftKind::none;
        TRY_ASSIGN(plan, plan_in(budget, /*streams=*/false));
      }
      if (leaves_rows()) break;
      if (plan.streams()) TRY_ASSIGN(plan, plan_in(budget, /*streams=*/true));
      if (plan.needed() <= limit) break;
    }
  } while ((leaves_rows() || plan.needed() > limit) && tried.prompt_chunk > kCut);
  // plan_text() fits its sizes to the budget alone, which does not count the lines beside the device's plan.
  if (plan.needed() > limit && floor <= limit) TRY_ASSIGN(plan, plan_smallest());
  plan.floor = floor;
  return plan;
}

Status check_floor(const MemoryPlan& plan) {
  if (plan.needed() <= plan.limit) return {};
  std::string parts = cat(format_bytes(plan.held), " held and in reserve");
  for (const MemoryLine& line : plan.lines)
    if (line.domain == plan.domain) parts += cat(", ", purpose_name(line.purpose), " ", format_bytes(line.bytes));
  if (const uint64_t media = bytes_in(plan.domain, plan.media); media != 0)
    parts += cat(", pictures and sounds ", format_bytes(media));
  if (plan.experts.layers != 0)
    parts += plan.experts.slot_bytes == 0
                 ? cat(", experts ", format_bytes(plan.experts.bytes))
                 : cat(", at least ", plan.experts.used, " experts ", format_bytes(plan.needed() - plan.dense()));
  return error(ErrorKind::out_of_memory, domain_name(plan.domain), " memory: ", format_bytes(plan.limit),
               " in all: want at least ", format_bytes(plan.needed()), " (", parts, ")");
}

}  // namespace sluice
