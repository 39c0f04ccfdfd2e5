#include "engine/plan/layout.h"

#include <algorithm>

#include "engine/adapters/adapter_slots.h"
#include "engine/state/cache.h"
#include "engine/state/pages.h"
#include "graph/expert_guesses.h"
#include "graph/late_experts.h"

namespace sluice {
namespace {

constexpr uint32_t kLeasedSteps = 4;  // the steps whose table rows fit into memory
constexpr uint32_t kMaxSequences = 4096;
constexpr uint32_t kMaxChunk = 1u << 16;
constexpr uint32_t kMostPictureRows = 1120;  // of one that sees ahead; check_media() refuses larger ones
constexpr uint32_t kLeastContext = 256;      // an open context is not reduced further
constexpr uint32_t kSnapshots = 8;           // for a conversation's system prompt and last turns
constexpr uint32_t kFewSnapshots = 2;        // with streamed experts: the memory serves them better
constexpr uint32_t kMostInSlots = 4;         // automatic guesses that take a slot each
constexpr uint32_t kUsualAdjustments = 64;   // of a sequence: a default penalty window

Status check_options(const TextModel& model, const EngineOptions& options) {
  if (options.sequences == 0 || options.sequences > kMaxSequences)
    return error(ErrorKind::invalid, "sequences are ", options.sequences, ": want 1 to ", kMaxSequences);
  if (options.prompt_chunk == 0 || options.prompt_chunk % kCut != 0 || options.prompt_chunk > kMaxChunk) {
    return error(ErrorKind::invalid, "prompt chunk is ", options.prompt_chunk, " rows: want a multiple of ", kCut,
                 " up to ", kMaxChunk);
  }
  if (options.logits_rows == 0 || options.logits_rows > options.prompt_chunk)
    return error(ErrorKind::invalid, "logits rows are ", options.logits_rows, ": want 1 to ", options.prompt_chunk);
  if (options.draft.kind != DraftKind::none && (options.draft.tokens == 0 || options.draft.tokens > kMaxDraftTokens))
    return error(ErrorKind::invalid, "draft tokens are ", options.draft.tokens, ": want 1 to ", kMaxDraftTokens);
  if (options.context > model.context) {
    return error(ErrorKind::invalid, "context is ", options.context, " tokens: want at most the model's ",
                 model.context);
  }
  return {};
}

// The most tokens that a sequence guesses in a step.
uint32_t drafts_of(const EngineOptions& options, const Program& program, bool has_drafts = true) {
  if (options.draft.kind == DraftKind::none) return 0;
  if (options.draft.kind == DraftKind::automatic && options.sequences > kMostThatDraft) return 0;
  if (!may_leave_drafts(options, program)) return options.draft.tokens;
  return has_drafts ? std::min(options.draft.tokens, kMostInSlots) : 0;
}

// Of a step of known tokens. A picture that sees ahead is one block with what stands beside it within 64 positions.
uint32_t chunk_rows(const TextModel& model, const EngineOptions& options) {
  const uint32_t uncut = model.uncut_rows == 0 ? 0 : cut_below(model.uncut_rows) + 3 * kCut;
  return std::max(options.prompt_chunk, uncut);
}

uint32_t pages_of_sequence(const TextModel& model, const PageGroup& group, uint32_t context,
                           const EngineOptions& options, uint32_t drafts) {
  if (group.kind == StateKind::slots) return kSlotEntries + drafts;
  const uint32_t chunk = chunk_rows(model, options);
  const uint32_t all = pages_for(context);
  return group.window == 0 ? all : std::min(all, pages_for(group.window) + chunk / kPagePositions + 2);
}

uint32_t pages_of_pool(const TextModel& model, const PageGroup& group, const EngineOptions& options,
                       const LayoutSize& size, uint32_t drafts) {
  if (group.kind == StateKind::slots) return options.sequences * (kSlotsOfSequence + drafts) + size.snapshots;
  const uint32_t window = group.window;
  const uint32_t one = pages_of_sequence(model, group, size.context, options, drafts);
  const uint64_t all = pages_for(size.cache_positions);
  if (window == 0) return static_cast<uint32_t>(std::max<uint64_t>(one, all));
  const uint64_t of_sequence = std::min(pages_for(size.context), pages_for(window) + 2);
  const uint64_t wanted =
      (options.sequences + size.snapshots) * of_sequence + chunk_rows(model, options) / kPagePositions;
  return static_cast<uint32_t>(std::max<uint64_t>(one, wanted));
}

// Sizes to try, largest first.
std::vector<LayoutSize> sizes_to_try(const TextModel& model, const EngineOptions& options, uint32_t most_snapshots) {
  std::vector<LayoutSize> sizes;
  const uint32_t context = options.context != 0 ? options.context : model.context;
  if (options.cache_positions != 0) {
    const auto most = static_cast<uint32_t>(std::min<uint64_t>(context, options.cache_positions));
    return {{most, options.cache_positions, most_snapshots},
            {most, options.cache_positions, most_snapshots / 2},
            {most, options.cache_positions, 0}};
  }
  const uint64_t wanted = uint64_t{pages_for(context)} * kPagePositions * options.sequences;
  for (const uint32_t snapshots : {most_snapshots, most_snapshots / 2}) sizes.push_back({context, wanted, snapshots});
  sizes.push_back({context, wanted, 0});
  if (options.sequences > 1) sizes.push_back({context, context, 0});
  if (options.context != 0) return sizes;
  for (uint32_t less = context / 2; less >= kLeastContext; less /= 2) sizes.push_back({less, less, 0});
  return sizes;
}

Result<PlacedText> place_plan(Layout layout, std::unique_ptr<Plan> plan, const TextModel& model, bool streams,
                              Device& device, Budget& budget) {
  PlacedText placed{
      .layout = std::move(layout), .numerics_id = plan->numerics_id(), .page_bytes = {}, .held = {}, .runner = {}};
  for (uint32_t g = 0; g < model.program.groups.size(); ++g) placed.page_bytes.push_back(plan->page_bytes(g));
  if (device.info().memory == Domain::host)
    TRY_ASSIGN(placed.held, HeldWeights::take(model.program, *model.weights, streams, budget));
  const WeightSource* const weights = placed.held != nullptr ? placed.held.get() : model.weights;
  TRY(placed.runner, device.place(std::move(plan), *weights, budget));
  return placed;
}

}  // namespace

namespace {

Status add_towers(const Model& model, TextModel& text) {
  for (const ProgramKind kind : {ProgramKind::vision, ProgramKind::audio}) {
    if (!model.has(kind)) continue;
    TRY(Program program, model.record(kind));
    text.towers.push_back({kind, std::move(program), &model.weights_of(kind)});
    if (model.sees_ahead(kind)) text.uncut_rows = kMostPictureRows;
  }
  return {};
}

}  // namespace

WeightFiles weight_files(const Model& model) {
  return {.paths = model.checkpoint().files(),
          .place = [model](const StoredAt& byte) { return model.checkpoint().place_of(byte); }};
}

Program streaming_program(Program program) { return with_expert_guesses(with_late_experts(std::move(program))); }

TextOptions text_options(const EngineOptions& options) {
  return {.hidden = options.draft.has_head(),
          .adapters = AdapterSlots::options(options.adapters, options.adapter_room)};
}

Result<TextModel> text_model(const Model& model, const TextOptions& options) {
  TRY(Program program, model.record_text(options));
  const ModelFacts& facts = model.facts();
  TextModel text{.program = std::move(program),
                 .weights = &model.weights(),
                 .vocabulary = facts.vocabulary,
                 .context = facts.context_length,
                 .suppressed = facts.suppress_tokens,
                 .digest = [model] { return model.digest(); },
                 .files = weight_files(model)};
  TRY_STATUS(add_towers(model, text));
  return text;
}

namespace {

Result<uint32_t> index_of(const std::vector<NamedValue>& list, const char* name) {
  for (uint32_t i = 0; i < list.size(); ++i)
    if (list[i].name == name) return i;
  return error(ErrorKind::unsupported, "text program: has no value ", name, ": want tokens, wanted, logits, sample");
}

}  // namespace

Result<TextPorts> find_ports(const Program& program) {
  TRY(TextPorts ports, find_input_ports(program));
  TRY(const uint32_t logits, index_of(program.outputs, "logits"));
  TRY(const uint32_t sample, index_of(program.outputs, "sample"));
  ports.logits = program.outputs[logits].value;
  ports.sample = program.outputs[sample].value;
  return ports;
}

Result<TextPorts> find_input_ports(const Program& program) {
  TextPorts ports;
  TRY(ports.tokens, index_of(program.inputs, "tokens"));
  TRY(ports.wanted, index_of(program.inputs, "wanted"));
  if (const auto media = index_of(program.inputs, "media")) {
    ports.media = *media;
    TRY(ports.media_rows, index_of(program.inputs, "media_rows"));
    const ValueId rows = program.inputs[*ports.media_rows].value;
    ports.media_columns = static_cast<uint32_t>(program.values[rows].type.columns());
  }
  if (const auto last = index_of(program.inputs, "last")) ports.last = *last;
  if (const auto coordinates = index_of(program.inputs, "coordinates")) ports.coordinates = *coordinates;
  if (const auto slots = index_of(program.inputs, "adapter_slots")) {
    ports.adapter_slots = *slots;
    TRY(ports.adapter_scales, index_of(program.inputs, "adapter_scales"));
  }
  return ports;
}

Result<std::vector<PlacedShape>> placed_shapes(const Program& program, const WeightSource& weights) {
  std::vector<PlacedShape> shapes;
  for (const WeightDecl& weight : program.weights) {
    TRY(const TensorSource tensor, weights.find(weight.name));
    shapes.push_back({tensor.shape, tensor.format, !tensor.parts.empty(), stored_bytes(tensor)});
  }
  return shapes;
}

uint32_t adjustments_of_one(const TextModel& model) {
  return kMaxPenaltyWindow + kMaxLogitBiases + static_cast<uint32_t>(model.suppressed.size());
}

bool keeps_slots(const Program& program) {
  return std::ranges::count(program.groups, StateKind::slots, &PageGroup::kind) != 0;
}

bool may_leave_drafts(const EngineOptions& options, const Program& program) {
  return options.draft.kind == DraftKind::automatic && options.sequences <= kMostThatDraft && keeps_slots(program);
}

uint32_t leased_rows(const EngineOptions& options, const Program& program) {
  return kLeasedSteps * std::max(options.prompt_chunk, options.sequences * (1 + drafts_of(options, program)));
}

Layout make_layout(const TextModel& model, const EngineOptions& options, const LayoutSize& size) {
  const uint32_t drafts = drafts_of(options, model.program, size.drafts);
  Layout layout{
      .context = size.context, .prompt_chunk = options.prompt_chunk, .drafts = drafts, .maxima = {}, .pages = {}};
  const uint32_t decoded = options.sequences * (1 + drafts);  // rows of a decode step
  const uint32_t rows = std::max(chunk_rows(model, options), decoded);
  layout.maxima.counts = text_counts(rows, std::min(rows, std::max(decoded, options.sequences + options.logits_rows)));
  if (has_symbol(model.program, Symbol::media_rows)) layout.maxima.counts[Symbol::media_rows] = rows;
  layout.maxima.sequences = options.sequences;
  const auto usual = kUsualAdjustments + static_cast<uint32_t>(model.suppressed.size());
  layout.maxima.adjustments = std::max(adjustments_of_one(model), options.sequences * usual);
  layout.maxima.masks = options.sequences;  // nothing is drafted under a mask
  for (const PageGroup& group : model.program.groups) {
    layout.maxima.pages_per_sequence.push_back(pages_of_sequence(model, group, size.context, options, drafts));
    layout.pages.push_back(pages_of_pool(model, group, options, size, drafts));
  }
  return layout;
}

Result<ExpertSlots> expert_slots(const ExpertPlaces& places, const TextModel& model, const Device& device,
                                 const Budget& budget, const EngineOptions& options) {
  TRY(const PlannedText planned, plan_text(model, device, budget, options, {.count = 1, .bytes = places.slot_bytes()}));
  const uint64_t own = planned.plan->expert_bytes(), one = own == 0 ? places.slot_bytes() : own;
  const uint64_t slots = std::min(options.experts.bytes / one, places.total_experts());
  if (slots > 0) return ExpertSlots{.count = static_cast<uint32_t>(slots), .bytes = places.slot_bytes()};
  return error(ErrorKind::out_of_memory, "experts: ", format_bytes(options.experts.bytes),
               " for them: want at least the ", format_bytes(one), " of one");
}

uint64_t step_bytes(const TextModel& model, const StepMaxima& maxima) {
  return StepBuffer::bytes(model.program, maxima) + maxima.counts[Symbol::wanted] * sizeof(SampleResult);
}

namespace {

Result<PlannedText> plan_chunk(const TextModel& model, const Device& device, const Budget& budget,
                               const EngineOptions& options, const ExpertSlots& slots) {
  PlanRequest request{.program = &model.program, .arithmetic = options.arithmetic, .maxima = {}, .pages = {}};
  TRY(request.weights, placed_shapes(model.program, *model.weights));
  request.cache = options.cache;
  request.expert_slots = slots;
  PlannedText planned;
  std::vector<LayoutSize> sizes = sizes_to_try(model, options, slots.count == 0 ? kSnapshots : kFewSnapshots);
  const bool may_leave = may_leave_drafts(options, model.program);
  if (may_leave) {
    for (LayoutSize& size : sizes) size.drafts = false;
    if (slots.count == 0) {
      sizes.insert(sizes.begin(), sizes.front());
      sizes.front().drafts = true;
    }
  }
  for (const LayoutSize& size : sizes) {
    planned.layout = make_layout(model, options, size);
    request.maxima = planned.layout.maxima;
    request.pages = planned.layout.pages;
    for (const Repack repack : {options.repack, Repack::never}) {
      if (may_leave && size.drafts && repack != options.repack) break;
      request.repack = repack;
      TRY(planned.plan, device.plan(request));
      std::vector<MemoryLine> wanted = planned.plan->memory();
      wanted.insert(wanted.end(), options.media.begin(), options.media.end());
      // Without media the small rest of the budget holds them.
      if (!options.media.empty())
        wanted.push_back({Domain::host, Purpose::staging, step_bytes(model, planned.layout.maxima)});
      planned.fits = budget.has_room(wanted);
      if (planned.fits) return planned;
    }
  }
  return planned;
}

}  // namespace

Result<PlannedText> plan_text(const TextModel& model, const Device& device, const Budget& budget,
                              const EngineOptions& options, const ExpertSlots& slots) {
  TRY_STATUS(check_options(model, options));
  EngineOptions tried = options;
  for (;;) {
    Result<PlannedText> planned = plan_chunk(model, device, budget, tried, slots);
    const bool lacks_room = planned ? !planned->fits : planned.error().kind == ErrorKind::out_of_memory;
    if (!lacks_room || tried.prompt_chunk <= kUsualPromptRows) return planned;
    tried.prompt_chunk = std::max(kUsualPromptRows, cut_below(tried.prompt_chunk / 2));
  }
}

Result<PlacedText> place_text(const TextModel& model, Device& device, Budget& budget, const EngineOptions& options,
                              const ExpertSlots& slots) {
  TRY(PlannedText planned, plan_text(model, device, budget, options, slots));
  TRY_STATUS(std::move(planned.fits));
  return place_plan(std::move(planned.layout), std::move(planned.plan), model, slots.count != 0, device, budget);
}

}  // namespace sluice
