#include "engine/draft/drafts.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace sluice {
namespace {

// How many results stand: the one of the last known row, and one for each guess that the model sampled too. A guess's
// row with logits that are not finite ends them. If its token is right, the next step computes and reports it again.
size_t count_standing(const EndedRows& rows) {
  if (rows.results.empty()) return 0;
  size_t standing = 1;
  while (standing <= rows.guesses.size() && rows.results[standing - 1].token == rows.guesses[standing - 1] &&
         rows.results[standing].finite != 0)
    ++standing;
  return standing;
}

}  // namespace

Result<std::unique_ptr<Drafts>> Drafts::with_head(const DraftOptions& options, DraftModel head, const Program& program,
                                                  const DraftHead::Limits& limits, Device& device, Budget& budget) {
  auto drafts = std::make_unique<Drafts>(options);
  TRY(drafts->head_, DraftHead::create(std::move(head), device, budget, limits));
  TRY_STATUS(drafts->carry(program, limits, budget));
  return drafts;
}

// Finds the outputs of the text program whose rows the head takes, and takes room for a step's rows.
Status Drafts::carry(const Program& program, const DraftHead::Limits& limits, Budget& budget) {
  const uint64_t bytes = DraftHead::carried_bytes(head_->program(), limits.rows);
  TRY(reserved_, budget.reserve(Domain::host, Purpose::staging, bytes));
  for (const DraftHead::Carried& of_head : head_->carried()) {
    const auto found = std::ranges::find(program.outputs, of_head.name, &NamedValue::name);
    if (found == program.outputs.end())
      return error(ErrorKind::unsupported, "text program: has no value ", of_head.name, ": want it to draft");
    const ValueType& type = program.values[found->value].type;
    if (type.extent != Extent{of_head.rows} || type.columns() != of_head.columns)
      return error(ErrorKind::unsupported, "text program: its value ", of_head.name, " has other rows or ",
                   type.columns(), " columns: want ", of_head.columns, ", as the draft head takes them");
    carried_.push_back({.value = found->value, .rows = std::vector<float>(limits.rows * of_head.columns)});
  }
  return {};
}

// A head's guess is computed, a token that is looked up costs nothing. So a head beside n-grams makes fewer.
uint32_t Drafts::most_at_once() const {
  constexpr uint32_t kOfHead = 4;
  return head_ && options_.has_ngrams() ? std::min(options_.tokens, kOfHead) : options_.tokens;
}

// Guesses no more tokens than the answer may still have behind the token that the step samples anyway.
std::vector<int32_t> Drafts::next_rows(const Job& job, const History& history) {
  if (job.tokens_left == 0 || !job.request.may_guess) return {};
  Answer& of = answer(job.id);
  std::vector<int32_t> guesses = head_ ? guesses_of_head(job, history, of) : std::vector<int32_t>();
  of.by_head = !guesses.empty();
  if (!options_.has_ngrams()) return guesses;
  const uint32_t worth = worth_guessing(of, history, job.tokens_left - 1);
  if (of.by_head && (worth == 0 || worth_.chance(of.match) < head_chance_.get())) return guesses;
  of.by_head = false;
  return {of.looked_up.begin(), of.looked_up.begin() + worth};
}

std::vector<int32_t> Drafts::guesses_of_head(const Job& job, const History& history, const Answer& answer) const {
  if (job.tokens_left < 2 || !drafting()) return {};
  std::vector<int32_t> guesses = head_->draft(job.sequence, history.size());
  guesses.resize(std::min<size_t>({guesses.size(), answer.length.length(), job.tokens_left - 1}));
  if (options_.right_share > 0) make_right(job, history.size(), guesses);
  return guesses;
}

void Drafts::make_right(const Job& job, size_t known, std::vector<int32_t>& guesses) const {
  const std::vector<int32_t>& recorded = job.request.recorded;
  for (size_t i = 0; i < guesses.size(); ++i) {
    const size_t place = known + i, of_answer = place - job.progress.prompt_tokens;
    const PhiloxCounter bits = philox4x32({static_cast<uint32_t>(place), 0, 0, 0}, {0, 0});
    if (of_answer < recorded.size() && static_cast<float>(bits[0]) < options_.right_share * 0x1p32f)
      guesses[i] = recorded[of_answer];
  }
}

// Looks up what may follow, and says how much of it to guess.
uint32_t Drafts::worth_guessing(Answer& answer, const History& history, uint32_t most) {
  const Lookup::Found found = answer.lookup.find(history);
  answer.match = found.match;
  answer.looked_up = tokens_behind(history, found, options_.tokens);
  most = std::min(most, static_cast<uint32_t>(answer.looked_up.size()));
  return options_.always ? std::min(most, answer.length.length()) : worth_.best(found.match, most);
}

// Each token that was sampled says whether the one that was looked up for its place is right, up to the first wrong
// one.
void Drafts::learn_chances(const Answer& answer, std::span<const SampleResult> sampled) {
  for (size_t i = 0; i < std::min(sampled.size(), answer.looked_up.size()); ++i) {
    const bool right = sampled[i].token == answer.looked_up[i];
    worth_.learn(answer.match + static_cast<uint32_t>(i), right);
    if (!right) return;
  }
}

// `sampled`: of the rows that stand.
void Drafts::learn_guesses(Answer& answer, uint32_t guessed, std::span<const SampleResult> sampled) {
  if (answer.by_head && guessed > 0) head_chance_.learn(sampled.size() > 1);
  if (answer.by_head || !head_) answer.length.learn(guessed, static_cast<uint32_t>(sampled.size() - 1));
  if (options_.has_ngrams()) learn_chances(answer, sampled);
}

// Of a step in which each answer has one known row.
void Drafts::learn_times(double seconds, std::span<const EndedRows> parts) {
  size_t rows = 0;
  for (const EndedRows& part : parts) {
    if (part.end - part.begin != 1 || part.results.empty()) return;
    rows += part.results.size();
  }
  worth_.took(static_cast<uint32_t>(parts.size()), static_cast<uint32_t>(rows), seconds);
}

void Drafts::take_rows(Job& job, const CachedHistory& text, TokenClass token_class, const EndedRows& rows) {
  const size_t standing = count_standing(rows);
  if (head_ && rows.complete && job.request.may_guess) feed_head(job, text, rows, standing);
  if (standing == 0) return;
  Answer& of = answer(job.id);
  const auto drafted = static_cast<uint32_t>(rows.guesses.size()), accepted = static_cast<uint32_t>(standing - 1);
  learn_guesses(of, drafted, rows.results.first(standing));
  drafted_ += drafted;
  accepted_ += accepted;
  job.progress.drafted += drafted;
  job.progress.accepted += accepted;
  const bool held_back = drafted == 0 && ((head_ && !drafting()) || !of.looked_up.empty());
  of.looked_up.clear();
  if (token_class == TokenClass::decode && held_back) ++job.progress.undrafted_steps;
  const std::span behind = rows.results.subspan(1, accepted);
  of.standing.assign(behind.rbegin(), behind.rend());
}

bool Drafts::has_results() const {
  return std::ranges::any_of(answers_, [](const auto& answer) { return !answer.second.standing.empty(); });
}

std::optional<SampleResult> Drafts::next_result(RequestId job) {
  const auto found = answers_.find(job);
  if (found == answers_.end() || found->second.standing.empty()) return std::nullopt;
  const SampleResult result = found->second.standing.back();
  found->second.standing.pop_back();
  return result;
}

void Drafts::add_reads(const SymbolCounts& counts, std::vector<ReadRequest>& reads) {
  for (size_t i = 0; i < carried_.size(); ++i) {
    const DraftHead::Carried& of_head = head_->carried()[i];
    const std::span rows = std::span(carried_[i].rows).first(counts[of_head.rows] * of_head.columns);
    reads.push_back({carried_[i].value, std::as_writable_bytes(rows)});
  }
}

// Gives the head the rows that stood and the known tokens behind them. In the gauge's mode `off` the head gets nothing.
void Drafts::feed_head(const Job& job, const CachedHistory& text, const EndedRows& rows, size_t standing) {
  if (!options_.always && gauge_.mode() == DraftGauge::Mode::off) return;
  const History& history = text.history;
  DraftFeed feed{.sequence = job.sequence, .begin = rows.begin};
  const size_t end = std::min<size_t>(history.size(), rows.end + 1);
  feed.tokens.reserve(end - rows.begin + rows.guesses.size());
  for (size_t i = rows.begin + 1; i < end; ++i) feed.tokens.push_back(history[i].token);
  for (const SampleResult& result : rows.results.first(standing)) feed.tokens.push_back(result.token);
  if (standing > 0) {
    const auto taken = static_cast<uint32_t>(feed.tokens.size()) + rows.begin + 1 - rows.end;
    const uint32_t left = job.tokens_left > taken ? job.tokens_left - taken : 0;
    const Constraint* constraint = job.request.constraint.get();
    if (drafting() && left > 1 && (constraint == nullptr || constraint->free_guesses({})))
      feed.drafts = std::min(answer(job.id).length.length(), left - 1);
    feed.sampling = sample_row(job.request.sampling, job.request.choice);
  }
  for (size_t i = 0; i < carried_.size(); ++i) {
    const auto& [name, input, symbol, columns] = head_->carried()[i];
    const std::span<const float> of_step = carried_[i].rows;
    const size_t last = rows.last_wanted + (standing > 0 ? standing - 1 : 0);
    feed.carried.push_back(symbol == Symbol::rows
                               ? of_step.subspan(rows.first_row * columns, feed.tokens.size() * columns)
                               : of_step.subspan(last * columns, columns));
  }
  head_->feed(std::move(feed), text, job.marks);
}

bool Drafts::start() {
  if (!head_ || !head_->start(fed_class_)) return false;
  head_started_ = Clock::now();
  return true;
}

bool Drafts::poll() {
  const bool progressed = head_->poll();
  if (!head_->busy() && fed_class_ == TokenClass::decode && gauge_.drafts())
    head_seconds_ += std::chrono::duration<double>(Clock::now() - head_started_).count();
  return progressed;
}

// The gauge counts the head's time as part of the decode step.
void Drafts::end_step(TokenClass token_class, double seconds, std::span<const EndedRows> parts) {
  fed_class_ = token_class;
  if (token_class != TokenClass::decode) return;
  if (options_.has_ngrams()) learn_times(seconds, parts);
  if (!head_) return;
  if (std::ranges::none_of(parts, &EndedRows::may_guess)) return;
  uint64_t tokens = 0;
  for (const EndedRows& rows : parts) tokens += count_standing(rows);
  gauge_.learn(tokens, seconds + std::exchange(head_seconds_, 0.0));
}

void Drafts::forget_sequence(SequenceId sequence, const CachedHistory& text) {
  if (head_) head_->forget(sequence, text);
}

void Drafts::forget_all() {
  if (head_) head_->forget_all();
  for (auto& [id, answer] : answers_) answer.standing.clear();
}

void Drafts::add_to(EngineStats& stats) const {
  stats.drafted += drafted_;
  stats.accepted += accepted_;
}

}  // namespace sluice
