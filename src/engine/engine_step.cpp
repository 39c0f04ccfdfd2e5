// A step of the engine: which sequences take part, what is started, and what its results mean for them.
#include <algorithm>

#include "base/threads.h"
#include "engine/engine_impl.h"

namespace sluice {
namespace {

// How exactly the end of a step is foreseen: longer than the system sleeps when it is to sleep a moment.
constexpr auto kNearTheEnd = std::chrono::microseconds(300);

}  // namespace

StepState EngineImpl::step() {
  bool progressed = take_recalled();
  if (leased_.store) leased_.store->advance(/*wait=*/false);
  if (media_ && media_->advance()) progressed = true;
  if (continuation_->busy()) return continuation_->poll() || progressed ? StepState::progressed : StepState::in_flight;
  if (!flight_ && (take_next_results() || take_forced_tokens())) return StepState::progressed;
  const bool launched = !flight_ && launch();
  if (!flight_ && !launched && !progressed && !awaits_rows()) return StepState::idle;
  progressed |= launched && !flight_;
  while (const std::optional<Completion> completion = placed_.runner->poll()) {
    complete(*completion);
    progressed = true;
  }
  progressed |= fetch_experts(false);
  return progressed ? StepState::progressed : StepState::in_flight;
}

// States, rows of tables or rows of towers, for requests whose next step waits for them.
bool EngineImpl::awaits_rows() const {
  return (states_ && states_->busy()) || (leased_.store && leased_.store->reading()) || (media_ && media_->busy());
}

void EngineImpl::wait() {
  if (flight_ && flight_->stopped)
    fetch_experts(true);
  else if (flight_ && flight_->token_class == TokenClass::decode && is_near_the_end(*flight_))
    yield_processor();
  else if (!flight_ && leased_.store && leased_.store->reading())
    leased_.store->advance(/*wait=*/true);
  else
    wait_a_moment();
}

// Requests whose states have been read, or not found, start.
bool EngineImpl::take_recalled() {
  if (!states_) return false;
  bool any = false;
  while (const auto recalled = states_->advance()) {
    any = true;
    const auto job = board_.jobs.find(recalled->request);
    if (job != board_.jobs.end() && job->second.state == Job::State::reading)
      admission_.start(job->second, recalled->length);
  }
  return any;
}

// Of a step that takes as long as the last one: a sleep would be too long by then.
bool EngineImpl::is_near_the_end(const Flight& flight) const {
  const auto left = flight.started + decode_took_ - Clock::now();
  return left < kNearTheEnd && left > -kNearTheEnd;
}

bool EngineImpl::warm_up() {
  if (!store_ || flight_) return false;
  fetch_experts(false);
  return store_->reading();
}

// Slots change while no step runs. True when one that had stopped goes on, or cannot.
bool EngineImpl::fetch_experts(bool wait) {
  if (!store_ || (flight_ && !flight_->stopped)) return false;
  const Result<bool> ready = store_->advance(wait);
  if (!flight_ || (ready && !*ready)) return false;
  if (ready) {
    flight_->stopped = false;
    store_->resumed();
    placed_.runner->resume(flight_->ticket);
  } else {
    const Flight flight = *std::exchange(flight_, std::nullopt);
    fail_all(flight, ready.error());
  }
  return true;
}

// False when nothing can be run now.
bool EngineImpl::launch() {
  if (continuation_->start()) return true;
  admission_.admit();
  bool finished_any = false;
  for (auto& [id, job] : board_.jobs) {
    if (job.state != Job::State::running || !job.done(board_.sequence_of(job).text)) continue;
    finish(job, Finish::length);
    finished_any = true;
  }
  const std::vector<Pending> wanting = pending();
  if (wanting.empty()) return finished_any;
  Batch batch = schedule_.next(wanting);
  Flight flight{.token_class = batch.token_class};
  std::vector<PageCopy> copies;
  bool progressed = finished_any;
  for (Portion& portion : batch.portions) {
    Job& job = board_.jobs.at(wanting[portion.of].id);
    // Jobs come oldest first, and what they need is taken from the youngest: never from one that is in the flight.
    if (job.state == Job::State::running && has_media(job, portion) && has_rows(job, portion) &&
        has_mask(job, portion) && admission_.provide(job, portion, copies))
      flight.parts.push_back(flight_part(job, portion));
    progressed |= job.state != Job::State::running;
  }
  if (flight.parts.empty()) return progressed || !awaits_rows();  // the next batch is of others
  start(std::move(flight), copies, {});
  return true;
}

// Whether all rows of tables that the portion needs lie in memory; else they are read now, and others go on.
bool EngineImpl::has_rows(Job& job, const Portion& portion) {
  if (!leased_.store) return true;
  const StepPart part{.sequence = &board_.sequence_of(job).text,
                      .drafts = std::span(job.guesses).first(portion.drafts),
                      .begin = portion.begin,
                      .end = portion.end + portion.drafts};
  const Result<bool> there = leased_.store->hold(job.id, input_tokens(model_->program, part));
  if (!there) fail(job, there.error());
  return there && *there;
}

bool EngineImpl::samples(const Job& job, const Portion& portion) {
  return portion.complete && job.tokens_left > 0 && portion.end == board_.sequence_of(job).text.history.size();
}

// Asks the constraint of a job that is about to sample. False: it has failed, and so has the job.
bool EngineImpl::has_mask(Job& job, const Portion& portion) {
  job.mask = {};
  if (job.request.constraint == nullptr || !samples(job, portion)) return true;
  Result<std::span<const uint32_t>> mask = job.request.constraint->mask();
  if (!mask) {
    fail(job, std::move(mask).error());
    return false;
  }
  job.mask = *mask;
  return true;
}

// Whether all rows of pictures and sounds that the portion shows are there; else they are computed, and others go on.
bool EngineImpl::has_media(Job& job, const Portion& portion) {
  if (!media_) return true;
  const std::span<const HistoryToken> history = board_.sequence_of(job).text.history;
  const Result<bool> there = media_->has(job.id, history.subspan(portion.begin, portion.end - portion.begin));
  if (!there) fail(job, there.error());
  return there && *there;
}

std::vector<Pending> EngineImpl::pending() {
  std::vector<Pending> wanting;
  for (auto& [id, job] : board_.jobs) {
    if (leased_.store && job.state != Job::State::running) leased_.store->release(id);
    if (job.state != Job::State::running || (leased_.store && leased_.store->waits(id))) continue;
    if (media_ && media_->waits(id)) continue;
    const uint32_t adjustments = most_adjustments(job.request.sampling, model_->suppressed);
    const CachedHistory& text = board_.sequence_of(job).text;
    Pending& one = wanting.emplace_back(pending_of(job, text, cache_, adjustments));
    job.guesses = one.generating ? guesses(job, text.history) : std::vector<int32_t>();
    one.drafts = static_cast<uint32_t>(job.guesses.size());
  }
  return wanting;
}

// Those of the continuation that the constraint leaves free.
std::vector<int32_t> EngineImpl::guesses(const Job& job, const History& history) {
  const Constraint* constraint = job.request.constraint.get();
  if (constraint != nullptr && !constraint->free_guesses({})) return {};
  std::vector<int32_t> all = continuation_->next_rows(job, history);
  if (constraint != nullptr) all.resize(*constraint->free_guesses(all));
  return all;
}

FlightPart EngineImpl::flight_part(const Job& job, const Portion& portion) {
  FlightPart part{.job = job.id, .portion = portion};
  for (uint32_t i = 0; i < portion.logits; ++i) part.wanted.push_back(job.logits_at[job.logits_given + i]);
  // The last row is always looked at, so that what is not finite is found in the step that computed it.
  if (part.wanted.empty() || part.wanted.back() != portion.end - 1) part.wanted.push_back(portion.end - 1);
  part.guesses.assign(job.guesses.begin(), job.guesses.begin() + portion.drafts);
  for (uint32_t i = 0; i < portion.drafts; ++i) part.wanted.push_back(portion.end + i);
  part.samples = samples(job, portion);
  return part;
}

StepPart EngineImpl::step_part(const FlightPart& part) {
  const Job& job = board_.jobs.at(part.job);
  CachedHistory& text = board_.sequence_of(job).text;
  if (ports_.coordinates) text.grids.extend(text.history);
  StepPart step{.sequence = &text,
                .drafts = part.guesses,
                .begin = part.portion.begin,
                .end = part.portion.end + static_cast<uint32_t>(part.guesses.size()),
                .wanted = part.wanted,
                .adapter = job.adapter.value_or(AdapterRow())};
  for (uint32_t i = step.begin; media_ && i < step.end; ++i) {
    const bool is_media = i < text.history.size() && text.history[i].is_media();
    step.media.push_back(is_media ? media_->row(text.history[i].media).data() : nullptr);
  }
  if (part.samples) {
    step.sampling =
        row_samplings(job.request.sampling, job.request.choice, text.history, part.guesses, model_->suppressed);
    step.sampling.front().mask = job.mask;
  }
  return step;
}

void EngineImpl::start(Flight flight, std::span<const PageCopy> copies, StartOptions how) {
  for (const PageCopy& copy : copies) placed_.runner->copy_page(copy.group, copy.from, copy.to);
  std::vector<StepPart> parts;
  uint32_t wanted = 0, rows = 0;
  bool with_logits = false;
  for (FlightPart& part : flight.parts) {
    part.first_wanted = wanted;
    wanted += static_cast<uint32_t>(part.wanted.size());
    with_logits |= part.portion.logits > 0;
    parts.push_back(step_part(part));
    part.first_row = rows;
    rows += parts.back().end - parts.back().begin;
  }
  fill_step(step_, ports_, flight.token_class, parts);
  if (leased_.store) leased_.store->fill(step_);
  std::vector<ReadRequest> reads{{ports_.sample, std::as_writable_bytes(std::span(results_).first(wanted))}};
  if (with_logits) {
    const std::span<float> given = std::span(logits_).first(size_t{wanted} * model_->vocabulary);
    reads.push_back({ports_.logits, std::as_writable_bytes(given)});
  }
  if (!flight.diagnosing) continuation_->add_reads(step_.counts(), reads);
  flight.started = Clock::now();
  if (store_) how.guess_experts = store_->begin_step() && !how.find_non_finite;
  flight.ticket = placed_.runner->start(step_, reads, how);
  flight_ = std::move(flight);
  ++stats_.steps;
}

// Tickets end in order: those of page copies before their step's.
void EngineImpl::complete(const Completion& completion) {
  if (files_.take(completion) || (states_ && states_->take(completion)) || !flight_) return;
  if (!completion.status && !flight_->failure) flight_->failure = completion.status.error();
  if (completion.ticket != flight_->ticket) return;
  if (store_) store_->note(completion);
  flight_->stopped = completion.stopped;
  if (flight_->stopped) return;
  const Flight flight = *std::exchange(flight_, std::nullopt);
  if (flight.failure)
    fail_all(flight, *flight.failure);
  else if (flight.diagnosing)
    end_diagnosis(flight.parts.front(), completion.non_finite);
  else
    land(flight);
}

void EngineImpl::land(const Flight& flight) {
  const Clock::duration took = Clock::now() - flight.started;
  if (flight.token_class == TokenClass::decode) decode_took_ = took;
  std::vector<EndedRows> ended;
  ended.reserve(flight.parts.size());
  for (const FlightPart& part : flight.parts) {
    put_recorded(part);
    ended.push_back(ended_rows(part));
  }
  continuation_->end_step(flight.token_class, std::chrono::duration<double>(took).count(), ended);
  for (size_t i = 0; i < flight.parts.size(); ++i) {
    const FlightPart& part = flight.parts[i];
    if (finite(part))
      accept(part, flight.token_class, ended[i]);
    else
      diagnosis_.add(part, flight.token_class);
  }
  diagnose_next();
}

bool EngineImpl::finite(const FlightPart& part) const {
  const std::span rows = std::span(results_).subspan(part.first_wanted, part.wanted.size() - part.guesses.size());
  return std::all_of(rows.begin(), rows.end(), [](const SampleResult& row) { return row.finite != 0; });
}

// In place of the tokens that the part sampled.
void EngineImpl::put_recorded(const FlightPart& part) {
  const Job& job = board_.jobs.at(part.job);
  if (!part.samples || job.request.recorded.empty()) return;
  const size_t sampled = 1 + part.guesses.size(), first = part.first_wanted + part.wanted.size() - sampled;
  const size_t taken = job.request.max_tokens - job.tokens_left;
  const std::vector<int32_t>& recorded = job.request.recorded;
  for (size_t i = 0; i < sampled && taken + i < recorded.size(); ++i) results_[first + i].token = recorded[taken + i];
}

EndedRows EngineImpl::ended_rows(const FlightPart& part) const {
  EndedRows ended{.begin = part.portion.begin,
                  .end = part.portion.end,
                  .first_row = part.first_row,
                  .guesses = part.guesses,
                  .complete = part.portion.complete,
                  .may_guess = board_.jobs.at(part.job).request.may_guess};
  const size_t sampled = 1 + part.guesses.size();
  ended.last_wanted = static_cast<uint32_t>(part.first_wanted + part.wanted.size() - sampled);
  if (part.samples) ended.results = std::span(results_).subspan(ended.last_wanted, sampled);
  return ended;
}

void EngineImpl::accept(const FlightPart& part, TokenClass token_class, const EndedRows& ended) {
  Job& job = board_.jobs.at(part.job);
  CachedHistory& text = board_.sequence_of(job).text;
  (token_class == TokenClass::prompt ? stats_.prompt_rows : stats_.decode_rows) +=
      part.portion.end - part.portion.begin + part.guesses.size();
  take_logits(job, part);
  if (part.portion.complete) cache_.advance(text, part.portion.end, job.marks);
  Progress& progress = job.progress;
  const uint32_t computed = std::min(text.cached, progress.prompt_tokens);
  if (computed > progress.reused_tokens)
    progress.computed_prompt_tokens = std::max(progress.computed_prompt_tokens, computed - progress.reused_tokens);
  if (leased_.store) leased_.store->release(job.id);
  if (job.cancelled) return finish(job, Finish::cancelled);
  continuation_->take_rows(job, text, token_class, ended);
  if (part.samples)
    take_token(job, ended.results.front());
  else if (job.done(text))
    finish(job, Finish::length);
}

void EngineImpl::take_logits(Job& job, const FlightPart& part) {
  const size_t width = model_->vocabulary;
  const std::span rows = std::span(logits_).subspan(part.portion.logits > 0 ? part.first_wanted * width : 0);
  const std::span given = rows.first(part.portion.logits * width);
  job.progress.logits.insert(job.progress.logits.end(), given.begin(), given.end());
  job.logits_given += part.portion.logits;
}

void EngineImpl::take_token(Job& job, const SampleResult& result) {
  CHECK(result.token >= 0 && static_cast<uint32_t>(result.token) < model_->vocabulary);
  if (job.request.constraint != nullptr && !job.request.constraint->accept(result.token))
    return fail(job, error(ErrorKind::unsupported, "no token that the constraint allows can be sampled here"));
  board_.sequence_of(job).text.history.push_back({result.token, TokenClass::decode});
  job.progress.tokens.push_back(result);
  --job.tokens_left;
  const std::vector<int32_t>& stops = job.request.stop_tokens;
  if (std::find(stops.begin(), stops.end(), result.token) != stops.end())
    finish(job, Finish::stop_token);
  else if (job.tokens_left == 0)
    finish(job, Finish::length);
}

// False when there are none.
bool EngineImpl::take_next_results() {
  if (!continuation_->has_results()) return false;
  for (auto& [id, job] : board_.jobs) {
    const std::optional<SampleResult> result = continuation_->next_result(id);
    if (!result) continue;
    CachedHistory& text = board_.sequence_of(job).text;
    cache_.advance(text, text.cached + 1, job.marks);
    take_token(job, *result);
  }
  return true;
}

// Of each job one token that its constraint leaves no choice of; one a turn, as results behind guesses. It becomes a
// known row of the decode class, as if it had been sampled. False when there are none.
bool EngineImpl::take_forced_tokens() {
  bool any = false;
  for (auto& [id, job] : board_.jobs) {
    const bool samples_on = job.state == Job::State::running && !job.cancelled && job.tokens_left > 0 &&
                            !job.progress.tokens.empty() && job.request.constraint != nullptr;
    const std::optional<int32_t> token = samples_on ? job.request.constraint->forced() : std::nullopt;
    if (!token || !job.request.sampling.logit_bias.empty() ||
        std::ranges::find(model_->suppressed, *token) != model_->suppressed.end())
      continue;
    take_token(job, {.token = *token});
    any = true;
  }
  return any;
}

void EngineImpl::diagnose_next() {
  while (!flight_) {
    std::optional<Flight> flight = diagnosis_.next();
    if (!flight) return;
    Job& job = board_.jobs.at(flight->parts.front().job);
    const FlightPart& part = flight->parts.front();
    if (job.cancelled)
      finish(job, Finish::cancelled);
    else if (has_media(job, part.portion))
      start(*std::move(flight), {}, {.find_non_finite = true});
    else if (job.state == Job::State::running)  // its rows were forgotten since
      fail(job, error(ErrorKind::invalid, Diagnosis::sentence(part, {})));
  }
}

void EngineImpl::end_diagnosis(const FlightPart& part, const std::optional<NonFinite>& found) {
  fail(board_.jobs.at(part.job), error(ErrorKind::invalid, Diagnosis::sentence(part, found)));
  diagnose_next();
}

// A device that failed may have lost what it held: nothing that was computed is trusted, and all that goes on is
// computed again from its tokens.
void EngineImpl::fail_all(const Flight& flight, const Error& why) {
  diagnosis_.clear();
  for (const FlightPart& part : flight.parts) fail(board_.jobs.at(part.job), why);
  if (states_) states_->stop_reading();
  cache_.forget_snapshots();
  continuation_->forget_all();
  for (auto& [id, sequence] : board_.sequences) cache_.drop(sequence.text);
}

}  // namespace sluice
