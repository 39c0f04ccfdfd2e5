// Drafts: what is proposed for a step, how much of it stands, and whether it pays.
#include <algorithm>
#include <utility>

#include "engine/engine_impl.h"

namespace sluice {

// Drafts for the next step of each running job: never more than the answer may still have behind the token sampled
// anyway.
void EngineImpl::propose_drafts() {
  for (auto& [id, job] : board_.jobs) {
    job.drafts.clear();
    if (job.state != Job::State::running || job.tokens_left < 2 || !drafting()) continue;
    const CachedHistory& text = board_.sequence_of(job).text;
    if (text.cached + 1 != text.history.size()) continue;
    const uint32_t most = std::min(job.draft_length.length(), job.tokens_left - 1);
    job.drafts = head_ ? head_->draft(job.sequence, text.history.size()) : ngram_draft(text.history, most);
    job.drafts.resize(std::min<size_t>(job.drafts.size(), most));
  }
}

bool EngineImpl::drafting() const {
  return options_.draft.kind != DraftKind::none && (options_.draft.always || gauge_.drafts());
}

Status EngineImpl::add_draft_head(DraftModel head, Device& device) {
  if (ports_.hidden == kNone)
    return error(ErrorKind::unsupported, "text program: has no value hidden: want it to draft");
  const uint64_t elements =
      model_->program.values[ports_.hidden].type.columns() * placed_.layout.maxima.counts[Symbol::rows];
  TRY(Reservation room, budget_->reserve(Domain::host, Purpose::staging, elements * sizeof(float)));
  reserved_.push_back(std::move(room));
  hidden_.resize(static_cast<size_t>(elements));
  const DraftHead::Limits limits{.arithmetic = options_.arithmetic,
                                 .rows = placed_.layout.maxima.counts[Symbol::rows],
                                 .sequences = options_.sequences,
                                 .context = context()};
  TRY(head_, DraftHead::create(std::move(head), device, *budget_, limits));
  return {};
}

// The rows of a part that stood, with the tokens behind them, as far as they are known. While drafting is off for long
// the head is not fed.
void EngineImpl::feed_head(const Job& job, const FlightPart& part) {
  if (!options_.draft.always && gauge_.mode() == DraftGauge::Mode::off) return;
  const History& history = board_.sequence_of(job).text.history;
  const size_t width = hidden_.size() / placed_.layout.maxima.counts[Symbol::rows];
  DraftFeed feed{.sequence = job.sequence,
                 .begin = part.portion.begin,
                 .hidden = std::span(hidden_).subspan(part.first_row * width)};
  const size_t end = std::min<size_t>(history.size(), part.portion.end + 1);
  feed.tokens.reserve(end - part.portion.begin + part.drafts.size());
  for (size_t i = part.portion.begin + 1; i < end; ++i) feed.tokens.push_back(history[i].token);
  if (part.samples) {
    for (const SampleResult& result : standing_results(part)) feed.tokens.push_back(result.token);
    const auto taken = static_cast<uint32_t>(feed.tokens.size()) + part.portion.begin + 1 - part.portion.end;
    const uint32_t left = job.tokens_left > taken ? job.tokens_left - taken : 0;
    if (drafting() && left > 1) feed.drafts = std::min(job.draft_length.length(), left - 1);
    feed.sampling = sample_row(job.request.sampling, job.request.choice);
  }
  head_->feed(std::move(feed));
}

// True when the head has ended something.
bool EngineImpl::run_head() {
  const bool progressed = head_->poll();
  if (!head_->busy() && fed_class_ == TokenClass::decode && gauge_.drafts())
    head_seconds_ += std::chrono::duration<double>(Clock::now() - head_started_).count();
  return progressed;
}

// How the token behind each row of a draft is sampled: as if the tokens before it were the history.
std::vector<RowSampling> EngineImpl::samplings(const Job& job, std::span<const int32_t> drafts) const {
  const SamplingSettings& settings = job.request.sampling;
  const History& history = board_.sequences.at(job.sequence).text.history;
  const size_t kept = std::min<size_t>(history.size(), kMaxPenaltyWindow);  // no adjustment looks further back
  History recent(history.end() - static_cast<std::ptrdiff_t>(kept), history.end());
  std::vector<RowSampling> rows;
  rows.reserve(1 + drafts.size());
  for (size_t i = 0;; ++i) {
    rows.push_back({.row = sample_row(settings, job.request.choice),
                    .adjustments = sample_adjustments(settings, recent, model_->suppressed)});
    if (i == drafts.size()) return rows;
    recent.push_back({drafts[i], TokenClass::decode});
  }
}

// The tokens that a part gives: that behind its last known row, and those behind drafts which were sampled, too. A row
// of a draft that is not finite ends them: the next step finds it again where it counts.
std::vector<SampleResult> EngineImpl::standing_results(const FlightPart& part) const {
  const size_t drafts = part.drafts.size();
  const std::span rows = std::span(results_).subspan(part.first_wanted + part.wanted.size() - 1 - drafts, 1 + drafts);
  size_t standing = 1;
  while (standing <= drafts && rows[standing - 1].token == part.drafts[standing - 1] && rows[standing].finite != 0)
    ++standing;
  return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(standing)};
}

// Results of a step: their first token is taken now, each other one in a turn of its own, so that whoever watches may
// end the answer behind any of them.
void EngineImpl::take_results(Job& job, const FlightPart& part, TokenClass token_class) {
  std::vector<SampleResult> results = standing_results(part);
  const auto drafted = static_cast<uint32_t>(part.drafts.size()), accepted = static_cast<uint32_t>(results.size() - 1);
  job.draft_length.learn(drafted, accepted);
  stats_.drafted += drafted;
  stats_.accepted += accepted;
  job.progress.drafted += drafted;
  job.progress.accepted += accepted;
  if (options_.draft.kind != DraftKind::none && token_class == TokenClass::decode && !drafting())
    ++job.progress.undrafted_steps;
  std::reverse(results.begin(), results.end());
  const SampleResult first = results.back();
  results.pop_back();
  job.verified = std::move(results);
  take_token(job, first);
}

// False when there are none.
bool EngineImpl::take_verified() {
  bool any = false;
  for (auto& [id, job] : board_.jobs) {
    if (job.verified.empty()) continue;
    any = true;
    const SampleResult result = job.verified.back();
    job.verified.pop_back();
    CachedHistory& text = board_.sequence_of(job).text;
    cache_.advance(text, text.cached + 1, job.marks);
    take_token(job, result);
  }
  return any;
}

// A decode step has ended: what it gave, against the time it took.
void EngineImpl::learn_pace(const Flight& flight) {
  if (options_.draft.kind == DraftKind::none || flight.token_class != TokenClass::decode) return;
  uint64_t tokens = 0;
  for (const FlightPart& part : flight.parts)
    if (part.samples) tokens += standing_results(part).size();
  const std::chrono::duration<double> taken = Clock::now() - flight.started;
  gauge_.learn(tokens, taken.count() + std::exchange(head_seconds_, 0.0));
}

}  // namespace sluice
