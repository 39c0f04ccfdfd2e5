#include "train/training_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/threads.h"
#include "engine/state/cache.h"
#include "graph/op_check.h"

namespace sluice {
namespace {

Result<uint32_t> input_index(const Program& program, const char* name) {
  for (uint32_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].name == name) return i;
  return error(ErrorKind::unsupported, "training: the program has no input ", name, ": want one");
}

uint32_t media_rows_of(const TrainSequence& sequence) {
  return std::accumulate(sequence.media.begin(), sequence.media.end(), 0u,
                         [](uint32_t sum, const TrainMedia& one) { return sum + one.span.rows; });
}

uint64_t value_elements(const Program& program, ValueId value) {
  const ValueType& type = program.values[value].type;
  return uint64_t{type.extent.ratio} * type.columns();
}

// `op`: the first one with such a result, where the device has found it.
Error not_finite(const std::optional<NonFinite>& op) {
  if (!op) return Error{ErrorKind::invalid, "training: the loss is not finite"};
  return error(ErrorKind::invalid, "training: the loss is not finite: the first such number is a result of ", op->what,
               op->layer < 0 ? std::string() : cat(" in layer ", op->layer),
               ": want a lower learning rate or other data");
}

}  // namespace

uint32_t TrainSequence::targets() const {
  return static_cast<uint32_t>(std::count(is_target.begin() + 1, is_target.end(), uint8_t{1}));
}

// Records the program and asks for its plan, without weights.
Status TrainingStep::prepare(const Model& model) {
  TRY(const Program text, model.record_text({.media = options_.size.shows_media}));
  TRY(training_, record_training(text, factors_->trained(),
                                 {.gradients = options_.gradients, .kept_layers = options_.kept_layers}));
  const Program& program = training_.program;
  TRY(ports_, find_input_ports(program));
  const size_t known = 4 + (ports_.media ? 2 : 0) + (ports_.last ? 1 : 0) + (ports_.coordinates ? 1 : 0);
  if (program.inputs.size() != known)
    return error(ErrorKind::unsupported, "training: the program has ", program.inputs.size(),
                 " inputs: want tokens, wanted, target and share, and those of media");
  TRY(target_, input_index(program, "target"));
  TRY(share_, input_index(program, "share"));
  maxima_ = {.counts = text_counts(options_.size.rows, options_.size.targets),
             .sequences = options_.size.sequences,
             .pages_per_sequence = std::vector<uint32_t>(program.groups.size(), kSlotEntries)};
  if (options_.size.shows_media) maxima_.counts[Symbol::media_rows] = options_.size.rows;
  request_ = {.program = &program,
              .arithmetic = options_.arithmetic,
              .maxima = maxima_,
              .pages = std::vector<uint32_t>(program.groups.size(), options_.size.sequences),
              .whole_sequences = true};
  TRY(request_.weights, placed_shapes(program, *factors_));
  if (!options_.on_device) return {};
  std::unordered_map<std::string, TrainedFactor::Place> places;
  for (WeightId id = 0; id < program.weights.size(); ++id) places[program.weights[id].name].weight = id;
  for (const FactorGradient& one : training_.gradients) places[one.factor].gradient = one.value;
  for (const std::vector<std::string>& group : factors_->groups()) {
    TrainedFactor& trained = request_.trained.emplace_back();
    for (const std::string& name : group) trained.places.push_back(places.at(name));
  }
  return {};
}

Result<std::vector<MemoryLine>> TrainingStep::memory(const Model& model, TrainedFactors& factors, const Device& device,
                                                     const Options& options) {
  TrainingStep step(factors, options);
  TRY_STATUS(step.prepare(model));
  TRY(const std::unique_ptr<Plan> plan, device.plan(step.request_));
  std::vector<MemoryLine> lines = plan->memory();
  lines.push_back({Domain::host, Purpose::staging, step.staging_bytes()});
  return lines;
}

uint64_t TrainingStep::staging_bytes() const {
  uint64_t bytes = StepBuffer::bytes(training_.program, maxima_);
  for (const FactorGradient& one : training_.gradients)
    bytes += value_elements(training_.program, one.value) * sizeof(float);
  return bytes;
}

Status TrainingStep::place(const Model& model, Device& device, Budget& budget) {
  TRY_STATUS(prepare(model));
  const Program& program = training_.program;
  TRY(std::unique_ptr<Plan> plan, device.plan(request_));
  TRY_STATUS(budget.has_room(plan->memory()));
  TRY(reserved_, budget.reserve(Domain::host, Purpose::staging, staging_bytes()));
  if (!options_.on_device)
    for (const FactorGradient& one : training_.gradients) read_.emplace_back(value_elements(program, one.value));
  TRY(held_, HeldWeights::take(program, *factors_, /*streams=*/false, budget));
  const WeightSource& weights = held_ == nullptr ? static_cast<const WeightSource&>(*factors_) : *held_;
  TRY(runner_, device.place(std::move(plan), weights, budget));
  placed_version_ = factors_->version();
  step_ = std::make_unique<StepBuffer>(program, maxima_);
  return {};
}

Result<std::unique_ptr<TrainingStep>> TrainingStep::create(const Model& model, TrainedFactors& factors, Device& device,
                                                           Budget& budget, const Options& options) {
  std::unique_ptr<TrainingStep> step(new TrainingStep(factors, options));
  TRY_STATUS(step->place(model, device, budget));
  return step;
}

uint32_t TrainingStep::wanted_of(std::span<const BatchPart> batch) {
  return std::accumulate(batch.begin(), batch.end(), 0u,
                         [](uint32_t sum, const BatchPart& part) { return sum + part.sequence->targets(); });
}

void TrainingStep::fill_sequence(const TrainSequence& sequence, uint32_t number, const PartPlace& at) {
  CachedHistory cached;
  for (const int32_t token : sequence.tokens) cached.history.push_back({.token = token});
  StepPart part{.sequence = &cached, .end = static_cast<uint32_t>(sequence.tokens.size())};
  if (!sequence.media.empty()) part.media.resize(sequence.tokens.size());
  for (const auto& [span, input] : sequence.media)
    for (uint32_t i = 0; i < span.rows; ++i) {
      MediaRow& row = cached.history[span.at + i].media;
      row = {span.content, i, span.shape};
      part.media[span.at + i] = options_.media->row(row);
    }
  cached.grids.extend(cached.history);
  fill_rows(*step_, ports_, number, part, at);
}

// Row i of a sequence is wanted if token i + 1 is a target.
void TrainingStep::fill(std::span<const BatchPart> batch) {
  PartPlace total, at;
  for (const BatchPart& part : batch) {
    total.row += static_cast<uint32_t>(part.sequence->tokens.size());
    total.media += media_rows_of(*part.sequence);
  }
  const auto sequences = static_cast<uint32_t>(batch.size());
  SymbolCounts counts = text_counts(total.row, wanted_of(batch));
  if (ports_.media) counts[Symbol::media_rows] = total.media;
  step_->reset(TokenClass::prompt, counts, sequences, 0);
  uint32_t wanted = 0;
  for (uint32_t s = 0; s < sequences; ++s) {
    const TrainSequence& sequence = *batch[s].sequence;
    fill_sequence(sequence, s, at);
    for (uint32_t i = 0; i + 1 < sequence.tokens.size(); ++i) {
      if (sequence.is_target[i + 1] == 0) continue;
      step_->input_i32(ports_.wanted)[wanted] = static_cast<int32_t>(at.row + i);
      step_->input_i32(target_)[wanted] = sequence.tokens[i + 1];
      step_->input_f32(share_)[wanted++] = batch[s].share;
    }
    at.row += static_cast<uint32_t>(sequence.tokens.size());
    at.media += media_rows_of(sequence);
    for (uint32_t group = 0; group < training_.program.groups.size(); ++group) {
      step_->pages(group, s)[kSlotRead] = -1;
      step_->pages(group, s)[kSlotWritten] = static_cast<int32_t>(s);
    }
  }
  step_->fill_ropes();
}

// For devices with a copy of their own.
void TrainingStep::reload_factors() {
  if (placed_version_ == factors_->version()) return;
  placed_version_ = factors_->version();
  const std::vector<WeightDecl>& weights = training_.program.weights;
  for (WeightId id = 0; id < weights.size(); ++id)
    if (factors_->has(weights[id].name)) runner_->reload(id, 0, weights[id].shape.experts);
}

// For the optimizer of such a device.
void TrainingStep::write_factors() {
  if (!trains_on_device() || written_version_ == factors_->version()) return;
  written_version_ = factors_->version();
  std::vector<std::span<const float>> numbers;
  for (const std::vector<std::string>& group : factors_->groups()) numbers.push_back(factors_->laid_out(group.front()));
  runner_->trained_memory()->write(TrainedTable::numbers, numbers);
}

void TrainingStep::start(std::span<const BatchPart> batch) {
  reload_factors();
  write_factors();
  fill(batch);
  targets_.clear();
  for (const BatchPart& part : batch) targets_.push_back(part.sequence->targets());
  losses_.resize(step_->wanted());
  std::vector<ReadRequest> reads{{training_.loss, std::as_writable_bytes(std::span(losses_))}};
  for (size_t i = 0; i < read_.size(); ++i)
    reads.push_back({training_.gradients[i].value, std::as_writable_bytes(std::span(read_[i]))});
  looks_ = false;
  ticket_ = runner_->start(*step_, reads, {.add_gradients = options_.on_device});
}

Result<std::optional<BatchLoss>> TrainingStep::poll() {
  const std::optional<Completion> completion = runner_->poll();
  if (!completion || completion->ticket != ticket_) return std::optional<BatchLoss>();
  TRY_STATUS(completion->status);
  if (looks_) return not_finite(completion->non_finite);
  if (std::ranges::all_of(losses_, [](float number) { return std::isfinite(number); }))
    return std::optional(take_losses());
  looks_ = true;
  ticket_ = runner_->start(*step_, {}, {.find_non_finite = true});
  return std::optional<BatchLoss>();
}

BatchLoss TrainingStep::take_losses() {
  std::vector<TrainedFactors::Numbers> gradients;
  gradients.reserve(read_.size());
  for (size_t i = 0; i < read_.size(); ++i) gradients.push_back({&training_.gradients[i].factor, read_[i]});
  factors_->add_gradients(gradients);
  BatchLoss result;
  auto at = losses_.begin();
  for (const uint32_t targets : targets_) {
    const auto end = at + targets;
    result.sums.push_back(std::accumulate(at, end, 0.0));
    at = end;
  }
  return result;
}

Result<BatchLoss> TrainingStep::run(std::span<const BatchPart> batch) {
  start(batch);
  for (;;) {
    TRY(std::optional<BatchLoss> loss, poll());
    if (loss) return *std::move(loss);
    wait_a_moment();
  }
}

}  // namespace sluice
