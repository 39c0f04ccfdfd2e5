#include "engine/engine.h"

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "engine/draft/drafts.h"
#include "engine/engine_impl.h"

namespace sluice {
namespace {

Schedule::Limits schedule_limits(const EngineOptions& options, const Layout& layout) {
  const StepMaxima& maxima = layout.maxima;
  return {.chunk = layout.prompt_chunk,
          .beside = kUsualPromptRows,
          .rows = maxima.counts[Symbol::rows],
          .sequences = options.sequences,
          .logits = options.logits_rows,
          .adjustments = maxima.adjustments};
}

Status check_indices(const char* what, const std::vector<uint32_t>& indices, size_t limit) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < limit && (i == 0 || indices[i] > indices[i - 1])) continue;
    return error(ErrorKind::invalid, what, ": entry ", i, " is ", indices[i], ": want ascending ones below ", limit);
  }
  return {};
}

// Positions at which a request whose text begins with `known` tokens leaves snapshots.
std::vector<SnapshotMark> snapshot_marks(const Request& request, size_t before, size_t known, size_t most) {
  std::map<uint32_t, bool> marks;  // at a boundary?
  for (size_t mark = kSnapshotSpacing; mark <= most; mark += kSnapshotSpacing) marks[cut_below(mark)] = false;
  for (const uint32_t end : request.message_ends) marks[cut_below(before + end)] = true;
  marks[cut_below(known)] = true;
  std::vector<SnapshotMark> list;
  list.reserve(marks.size());
  for (const auto& [position, at_boundary] : marks) list.push_back({position, at_boundary});
  return list;
}

// From now on the model's weights are those of the store.
Result<LeasedRows> lease_rows(TextModel& model, uint32_t tokens, Budget& budget, const EngineOptions& options) {
  LeasedRows leased;
  if (!options.lease_rows) return leased;
  TRY(leased.store,
      RowStore::plan(model.program, tokens, *model.weights, model.files, leased_rows(options, model.program)));
  if (!leased.store) return leased;
  TRY(leased.reservation, budget.reserve(Domain::host, Purpose::weights, leased.store->bytes()));
  TRY_STATUS(leased.store->take(options.experts.open_reads));
  model.weights = leased.store.get();
  return leased;
}

// Likewise: they are weights of the program.
Result<LeasedAdapters> lease_adapters(TextModel& model, Budget& budget, const EngineOptions& options) {
  LeasedAdapters leased;
  TRY(leased.slots, AdapterSlots::plan(model.program, *model.weights, options.adapters, options.adapter_room));
  if (!leased.slots) return leased;
  TRY(leased.reservation, budget.reserve(Domain::host, Purpose::adapters, leased.slots->bytes()));
  leased.slots->take();
  model.weights = leased.slots.get();
  return leased;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const Model& model, Device& device, Budget& budget,
                                               const EngineOptions& options) {
  std::optional<DraftModel> head;
  if (options.draft.has_head()) {
    TRY(Program draft, model.record(ProgramKind::draft_head));
    head = DraftModel{.program = std::move(draft), .weights = &model.weights_of(ProgramKind::draft_head)};
  }
  TRY(TextModel text, text_model(model, text_options(options)));
  TRY(std::unique_ptr<EngineImpl> engine, create_engine(std::move(text), device, budget, options, std::move(head)));
  return std::unique_ptr<Engine>(std::move(engine));
}

Result<std::unique_ptr<EngineImpl>> create_engine(TextModel model, Device& device, Budget& budget,
                                                  const EngineOptions& options, std::optional<DraftModel> head) {
  auto kept = std::make_unique<TextModel>(std::move(model));
  TRY(const TextPorts ports, find_ports(kept->program));
  TRY(LeasedAdapters adapters, lease_adapters(*kept, budget, options));
  std::optional<ExpertPlaces> experts;
  ExpertSlots slots;
  if (options.experts.bytes != 0) {
    kept->program = streaming_program(std::move(kept->program));
    TRY(experts, ExpertPlaces::find(kept->program, *kept->weights, kept->files));
    TRY(slots, expert_slots(*experts, *kept, device, budget, options));
  }
  TRY(LeasedRows leased, lease_rows(*kept, ports.tokens, budget, options));
  TRY(PlacedText placed, place_text(*kept, device, budget, options, slots));
  auto engine = std::make_unique<EngineImpl>(std::move(kept), ports, std::move(placed), device.info(), budget, options);
  TRY_STATUS(engine->reserve_buffers());
  if (head) TRY_STATUS(engine->add_draft_head(*std::move(head), device));
  if (experts) TRY_STATUS(engine->add_expert_store(*std::move(experts), slots.count));
  if (adapters.slots) engine->add_adapters(std::move(adapters));
  if (leased.store) engine->add_rows(std::move(leased));
  engine->add_towers(device);
  return engine;
}

EngineImpl::EngineImpl(std::unique_ptr<TextModel> model, const TextPorts& ports, PlacedText placed,
                       const DeviceInfo& device, Budget& budget, const EngineOptions& options)
    : model_(std::move(model)),
      ports_(ports),
      placed_(std::move(placed)),
      options_(options),
      budget_(&budget),
      cache_(model_->program.groups, placed_.layout.pages, device.classes_bit_equal),
      admission_(cache_, board_, options.sequences),
      schedule_(schedule_limits(options, placed_.layout)),
      step_(model_->program, placed_.layout.maxima),
      results_(placed_.layout.maxima.counts[Symbol::wanted]),
      pages_(cache_, *placed_.runner, placed_.page_bytes,
             {.reclaim = [this] { return admission_.reclaim(); },
              .complete = [this](const Completion& completion) { complete(completion); }}),
      files_(pages_, cache_, *placed_.runner, budget, computed_by()) {
  options_.draft.tokens = placed_.layout.drafts;
  if (placed_.layout.drafts == 0)
    continuation_ = std::make_unique<OneToken>();
  else
    continuation_ = std::make_unique<Drafts>(options_.draft);
  if (options_.states == nullptr) return;
  states_.emplace(*options_.states, pages_, cache_, computed_by());
  admission_.set_states(*states_);
}

ComputedBy EngineImpl::computed_by() const {
  return {.digest = model_->digest,
          .numerics_id = placed_.numerics_id,
          .vocabulary = model_->vocabulary,
          .context = context()};
}

Status EngineImpl::reserve_buffers() {
  const uint64_t bytes = step_bytes(*model_, placed_.layout.maxima);
  TRY(Reservation reservation, budget_->reserve(Domain::host, Purpose::staging, bytes));
  reserved_.push_back(std::move(reservation));
  return {};
}

Status EngineImpl::add_draft_head(DraftModel head, Device& device) {
  const DraftHead::Limits limits{.arithmetic = options_.arithmetic,
                                 .rows = placed_.layout.maxima.counts[Symbol::rows],
                                 .sequences = options_.sequences,
                                 .context = context()};
  TRY(continuation_, Drafts::with_head(options_.draft, std::move(head), model_->program, limits, device, *budget_));
  return {};
}

Status EngineImpl::add_expert_store(ExpertPlaces places, uint32_t slots) {
  TRY(store_, open_expert_store(std::move(places), slots, *placed_.runner, *budget_, options_.experts));
  return {};
}

void EngineImpl::add_towers(Device& device) {
  if (!ports_.media) return;
  media_.emplace(std::exchange(model_->towers, {}), device, *budget_,
                 Media::Settings{.arithmetic = options_.arithmetic,
                                 .columns = ports_.media_columns,
                                 .is_shown = [this](const MediaDigest& content) { return is_shown(content); }});
}

Status EngineImpl::give_media(MediaInput input) {
  if (media_) return media_->give(std::move(input));
  return error(ErrorKind::unsupported, "media: the model takes no pictures or sounds: want one with a tower");
}

bool EngineImpl::is_shown(const MediaDigest& content) const {
  const auto shows = [&](const HistoryToken& element) { return element.media.content == content; };
  return std::ranges::any_of(board_.sequences,
                             [&](const auto& one) { return std::ranges::any_of(one.second.text.history, shows); });
}

Status EngineImpl::check_request(const Request& request, size_t history_before) const {
  TRY_STATUS(check_tokens("prompt", request.prompt, model_->vocabulary));
  TRY_STATUS(check_tokens("recorded", request.recorded, model_->vocabulary));
  TRY_STATUS(check_indices("logits_at", request.logits_at, request.prompt.size()));
  TRY_STATUS(check_indices("message_ends", request.message_ends, request.prompt.size() + 1));
  TRY_STATUS(check_sampling(request.sampling, model_->vocabulary));
  TRY_STATUS(check_media(request));
  const size_t total = history_before + request.prompt.size();
  if (total == 0) return error(ErrorKind::invalid, "request: has no tokens: want a prompt");
  const size_t most = context() - (request.max_tokens > 0 ? 1 : 0);
  if (total <= most) return {};
  return error(ErrorKind::invalid, "request: ", request.prompt.size(), " tokens after a history of ", history_before,
               ": want at most ", most, " together, the context being ", context());
}

Status EngineImpl::check_media(const Request& request) const {
  if (!request.media.empty() && !ports_.media)
    return error(ErrorKind::unsupported, "request: has pictures or sounds: want tokens alone for this model");
  uint64_t end = 0;
  for (size_t i = 0; i < request.media.size(); ++i) {
    const MediaSpan& span = request.media[i];
    if (span.at < end || span.rows == 0 || uint64_t{span.at} + span.rows > request.prompt.size()) {
      return error(ErrorKind::invalid, "media: entry ", i, " is of ", span.rows, " rows at token ", span.at,
                   ": want some within the prompt's ", request.prompt.size(), " tokens, behind entries before it");
    }
    if (span.content == MediaDigest{}) return error(ErrorKind::invalid, "media: entry ", i, " has no digest");
    if (span.shape.sees_ahead != 0 && span.rows > model_->uncut_rows)
      return error(ErrorKind::invalid, "media: entry ", i, " is of ", span.rows, " rows: want at most ",
                   model_->uncut_rows);
    end = uint64_t{span.at} + span.rows;
  }
  return {};
}

Status EngineImpl::check_adapters(const AdapterSum& sum) const {
  if (adapters_.slots) return adapters_.slots->check(sum);
  if (acting(sum).empty()) return {};
  return error(ErrorKind::invalid, "request: names adapters: want a model that was opened with room for them");
}

void EngineImpl::add_adapters(LeasedAdapters leased) {
  adapters_ = std::move(leased);
  admission_.set_adapters(
      [this](const AdapterSum& sum) { return adapters_.slots->hold(sum, model_->program, *placed_.runner); });
}

Result<OpenSequence*> EngineImpl::sequence_for(const Request& request) {
  if (request.sequence != kNewSequence) return board_.idle_sequence(request.sequence);
  OpenSequence& made = board_.sequences[++board_.last_id];
  made.text = cache_.empty();
  return &made;
}

Job EngineImpl::make_job(Request request, SequenceId sequence, size_t history_before) {
  const size_t known = history_before + request.prompt.size();
  Job job;
  job.id = ++board_.last_id;
  job.sequence = sequence;
  job.history_before = static_cast<uint32_t>(history_before);
  job.tokens_left = static_cast<uint32_t>(std::min<size_t>(request.max_tokens, context() - known));
  for (const uint32_t index : request.logits_at) job.logits_at.push_back(static_cast<uint32_t>(history_before + index));
  job.marks = snapshot_marks(request, history_before, known, known + job.tokens_left);
  job.progress.sequence = sequence;
  job.progress.prompt_tokens = static_cast<uint32_t>(known);
  job.request = std::move(request);
  return job;
}

Result<RequestId> EngineImpl::submit(Request request) {
  size_t history_before = 0;
  if (request.sequence != kNewSequence) {
    TRY(const OpenSequence* open, board_.idle_sequence(request.sequence));
    history_before = open->text.history.size();
  }
  TRY_STATUS(check_request(request, history_before));
  TRY_STATUS(check_adapters(request.adapters));
  if (!request.logits_at.empty() && logits_.empty()) {
    const uint64_t elements = uint64_t{results_.size()} * model_->vocabulary;
    TRY(Reservation room, budget_->reserve(Domain::host, Purpose::staging, elements * sizeof(float)));
    reserved_.push_back(std::move(room));
    logits_.resize(static_cast<size_t>(elements));
  }
  TRY(OpenSequence * sequence, sequence_for(request));
  const SequenceId id = request.sequence != kNewSequence ? request.sequence : board_.last_id;
  for (const int32_t token : request.prompt) sequence->text.history.push_back({token, TokenClass::prompt});
  for (const MediaSpan& span : request.media)
    for (uint32_t row = 0; row < span.rows; ++row)
      sequence->text.history[history_before + span.at + row].media = {span.content, row, span.shape};
  cache_.use_adapters(sequence->text, adapters_.slots ? adapters_.slots->name_of(request.adapters) : "");
  Job job = make_job(std::move(request), id, history_before);
  sequence->keep = job.request.keep_sequence;
  sequence->request = job.id;
  sequence->last_used = ++board_.clock;
  for (const SnapshotMark& mark : job.marks)
    if (mark.at_boundary && options_.states != nullptr) sequence->boundaries.push_back(mark.position);
  const RequestId request_id = job.id;
  board_.jobs.emplace(request_id, std::move(job));
  return request_id;
}

Result<Progress> EngineImpl::collect(RequestId id) {
  const auto found = board_.jobs.find(id);
  if (found == board_.jobs.end()) return error(ErrorKind::not_found, "request ", id, ": is not known");
  Job& job = found->second;
  Progress taken = job.progress;
  job.progress.tokens.clear();
  job.progress.logits.clear();
  if (job.state == Job::State::finished) board_.jobs.erase(found);
  return taken;
}

EngineStats EngineImpl::stats() const {
  EngineStats stats = stats_;
  continuation_->add_to(stats);
  stats.held_pages = admission_.held_pages();
  return stats;
}

bool EngineImpl::in_flight(RequestId id) const { return (flight_ && flight_->concerns(id)) || diagnosis_.concerns(id); }

void EngineImpl::cancel(RequestId id) {
  const auto found = board_.jobs.find(id);
  if (found == board_.jobs.end() || found->second.state == Job::State::finished) return;
  if (in_flight(id))
    found->second.cancelled = true;
  else
    finish(found->second, Finish::cancelled);
}

void EngineImpl::finish(Job& job, Finish how) {
  job.progress.finish = how;
  job.state = Job::State::finished;
  continuation_->forget(job);
  if (states_) states_->stop(job.id);
  if (leased_.store) leased_.store->release(job.id);
  if (adapters_.slots && job.adapter) adapters_.slots->release(*job.adapter);
  OpenSequence& sequence = board_.sequence_of(job);
  cache_.settle(sequence.text);
  sequence.request = 0;
  sequence.last_used = ++board_.clock;
  cache_.remember(sequence.text);
  if (!sequence.keep) forget_sequence(job.sequence);
}

void EngineImpl::forget_sequence(SequenceId sequence) {
  const auto open = board_.sequences.find(sequence);
  continuation_->forget_sequence(sequence, open->second.text);
  board_.sequences.erase(open);
}

void EngineImpl::fail(Job& job, Error why) {
  CachedHistory& text = board_.sequence_of(job).text;
  cache_.resume(text, job.history_before);
  text.truncate(job.history_before);
  job.progress.failure = std::move(why);
  finish(job, Finish::failed);
}

}  // namespace sluice
