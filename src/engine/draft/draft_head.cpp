#include "engine/draft/draft_head.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/random.h"
#include "engine/plan/layout.h"

namespace sluice {
namespace {

// The candidate that the text's random numbers would choose behind `position` by the head's logits.
int32_t choose(const SampleResult& result, const SampleRow& how, uint32_t position) {
  if (how.temperature == 0) return result.candidates[0].token;
  const uint64_t seed = uint64_t{how.seed_high} << 32 | how.seed_low;
  const uint32_t count = how.top_k == 0 ? kCandidates : std::min(how.top_k, kCandidates);
  int32_t best = result.candidates[0].token;
  float most = -std::numeric_limits<float>::infinity();
  for (const Candidate& candidate : std::span(result.candidates).first(count)) {
    if (candidate.token < 0) break;
    const float value =
        candidate.logit / how.temperature + gumbel(seed, how.choice, position, static_cast<uint32_t>(candidate.token));
    if (value <= most) continue;
    most = value;
    best = candidate.token;
  }
  return best;
}

// Page table entries of a sequence. Behind a window pages go before the rows of a step come.
uint32_t pages_of_one(const PageGroup& group, const DraftHead::Limits& limits) {
  const uint32_t all = pages_for(limits.context);
  return group.window == 0 ? all : std::min(all, pages_for(group.window) + pages_for(limits.rows) + 1);
}

// The program is the model's, which outlives it.
Result<PlanRequest> plan_request(const DraftModel& model, const DraftHead::Limits& limits) {
  const Program& program = model.program;
  PlanRequest request{.program = &program, .arithmetic = limits.arithmetic, .maxima = {}, .pages = {}};
  request.maxima = {.counts = text_counts(limits.rows, limits.sequences), .sequences = limits.sequences};
  for (const PageGroup& group : program.groups) {
    if (group.kind == StateKind::slots)
      return error(ErrorKind::unsupported, "draft head: has a recurrent state: want keys and values alone");
    request.maxima.pages_per_sequence.push_back(pages_of_one(group, limits));
    request.pages.push_back(request.maxima.pages_per_sequence.back() * limits.sequences);
  }
  TRY(request.weights, placed_shapes(program, *model.weights));
  return request;
}

}  // namespace

Result<std::vector<MemoryLine>> DraftHead::memory(const DraftModel& model, const Device& device, const Limits& limits) {
  TRY(const PlanRequest request, plan_request(model, limits));
  TRY(const std::unique_ptr<Plan> plan, device.plan(request));
  std::vector<MemoryLine> lines = plan->memory();
  lines.push_back({Domain::host, Purpose::staging, StepBuffer::bytes(model.program, request.maxima)});
  lines.push_back({Domain::host, Purpose::staging, carried_bytes(model.program, limits.rows)});
  return lines;
}

std::vector<DraftHead::Carried> DraftHead::carried_by(const Program& head) {
  std::vector<Carried> carried;
  for (uint32_t i = 0; i < head.inputs.size(); ++i) {
    const auto& [name, value, heads] = head.inputs[i];
    const ValueType& type = head.values[value].type;
    if (name != "tokens" && name != "wanted" && name != "positions")
      carried.push_back({name, i, type.extent.symbol, static_cast<size_t>(type.columns())});
  }
  return carried;
}

uint64_t DraftHead::carried_bytes(const Program& head, uint32_t rows) {
  uint64_t columns = 0;
  for (const Carried& carried : carried_by(head)) columns += carried.columns;
  return columns * rows * sizeof(float);
}

Result<std::unique_ptr<DraftHead>> DraftHead::create(DraftModel model, Device& device, Budget& budget,
                                                     const Limits& limits) {
  auto kept = std::make_unique<DraftModel>(std::move(model));
  TRY(const PlanRequest request, plan_request(*kept, limits));
  TRY(std::unique_ptr<Plan> plan, device.plan(request));
  TRY_STATUS(budget.has_room(plan->memory()));
  TRY(std::unique_ptr<Runner> runner, device.place(std::move(plan), *kept->weights, budget));
  std::unique_ptr<DraftHead> head(new DraftHead(std::move(kept), std::move(runner), request.maxima, request.pages));
  TRY_STATUS(head->find_ports());
  const uint64_t bytes = head->step_.words().size_bytes() + head->results_.size() * sizeof(SampleResult) +
                         head->rows_.size() * sizeof(float);
  TRY(head->reserved_, budget.reserve(Domain::host, Purpose::staging, bytes));
  return head;
}

DraftHead::DraftHead(std::unique_ptr<DraftModel> model, std::unique_ptr<Runner> runner, const StepMaxima& maxima,
                     const std::vector<uint32_t>& pages)
    : model_(std::move(model)),
      runner_(std::move(runner)),
      pools_(pages.begin(), pages.end()),
      step_(model_->program, maxima),
      results_(maxima.counts[Symbol::wanted]) {}

Status DraftHead::find_ports() {
  const Program& program = model_->program;
  const auto find = [](const auto& list, const char* name) -> Result<uint32_t> {
    for (uint32_t i = 0; i < list.size(); ++i)
      if (list[i].name == name) return i;
    return error(ErrorKind::unsupported, "draft head: has no value ", name,
                 ": want tokens, hidden, wanted, and sample, hidden");
  };
  TRY(tokens_, find(program.inputs, "tokens"));
  TRY(wanted_, find(program.inputs, "wanted"));
  if (const auto positions = find(program.inputs, "positions")) positions_ = *positions;
  carried_ = carried_by(program);
  TRY(hidden_, find(carried_, "hidden"));
  in_place_ = program.values[program.inputs[tokens_].value].type.extent.symbol == Symbol::wanted;
  TRY(const uint32_t sample, find(program.outputs, "sample"));
  TRY(const uint32_t hidden, find(program.outputs, "hidden"));
  sample_ = program.outputs[sample].value;
  hidden_out_ = program.outputs[hidden].value;
  width_ = static_cast<size_t>(program.values[hidden_out_].type.columns());
  rows_.resize(results_.size() * width_);
  return {};
}

std::vector<int32_t> DraftHead::draft(uint64_t sequence, size_t known) const {
  const auto found = states_.find(sequence);
  if (found == states_.end() || found->second.end + 1 != known) return {};
  return found->second.drafts;
}

void DraftHead::feed(DraftFeed feed, const CachedHistory& text, std::span<const SnapshotMark> marks) {
  const auto found = states_.find(feed.sequence);
  if (found != states_.end() && feed.begin <= found->second.end) {
    State& state = found->second;
    for (const SnapshotMark& mark : marks)
      if (mark.position > state.kept && mark.position <= feed.begin) keep(state, text, mark.position, mark.at_boundary);
    state.kept = feed.begin;
  }
  if (feed.begin > 0 && (found == states_.end() || !goes_on(found->second, feed.begin)))
    resume(feed.sequence, feed.begin, text);
  feeds_.push_back(std::move(feed));
}

// Leaves a snapshot of the rows before `position`. A state that began behind a gap has none: its pages count from
// there.
void DraftHead::keep(const State& state, const CachedHistory& text, uint32_t position, bool at_boundary) {
  if (state.base != 0 || position == 0) return;
  Snapshot snapshot{.length = position, .tables = {}, .at_boundary = at_boundary};
  for (size_t group = 0; group < state.pages.size(); ++group) {
    const PageRange range = pages_at(model_->program.groups[group], position);
    const PageTable& pages = state.pages[group];
    if (range.first < pages.first() || range.end > pages.end()) return;
    snapshot.tables.push_back(pages.part(range.first, range.end));
  }
  snapshots_.insert(text.history, std::move(snapshot), text.adapters);
}

// The sequence's state becomes that of the snapshot at `begin`, if there is one.
void DraftHead::resume(uint64_t sequence, uint32_t begin, const CachedHistory& text) {
  const Snapshot* const snapshot = snapshots_.find(text.history, begin, text.adapters);
  if (snapshot == nullptr || snapshot->length != begin) return;
  states_.insert_or_assign(sequence, State{.end = begin, .pages = snapshot->tables, .kept = begin});
}

void DraftHead::forget(uint64_t sequence, const CachedHistory& text) {
  // Rows that were fed and not begun would bring the state back. Running rows find no state when they land.
  if (!busy()) std::erase_if(feeds_, [&](const DraftFeed& feed) { return feed.sequence == sequence; });
  const auto found = states_.find(sequence);
  if (found == states_.end()) return;
  const uint32_t end = cut_below(std::min(found->second.end, text.cached));
  if (end > found->second.kept) keep(found->second, text, end, /*at_boundary=*/true);
  states_.erase(found);
}

void DraftHead::forget_all() {
  states_.clear();
  snapshots_.clear();
}

std::vector<PageTable> DraftHead::no_pages() { return {pools_.begin(), pools_.end()}; }

// Whether the rows from `begin` on extend those that the state has. What they see may lie behind a window already, and
// the page that they begin in may be a snapshot's.
bool DraftHead::goes_on(const State& state, uint32_t begin) const {
  if (begin > state.end || begin < state.base) return false;
  const uint32_t length = begin - state.base;
  for (size_t group = 0; group < state.pages.size(); ++group) {
    const PageTable& pages = state.pages[group];
    if (first_seen_page(model_->program.groups[group].window, length) < pages.first()) return false;
    const uint32_t page = length / kPagePositions;
    if (length % kPagePositions != 0 && page < pages.end() && pages.shared(page)) return false;
  }
  return true;
}

// The state that the rows of `feed` extend; null if there are no pages for them.
DraftHead::State* DraftHead::state_of(const DraftFeed& feed) {
  State& state = states_.try_emplace(feed.sequence, State{.pages = no_pages()}).first->second;
  state.drafts.clear();
  if (!goes_on(state, feed.begin)) {
    state.pages = no_pages();
    state.base = feed.begin;
  }
  // Pages behind may be a snapshot's.
  for (PageTable& pages : state.pages) pages.drop_from(pages_for(feed.begin - state.base));
  state.end = feed.begin;
  const auto rows = static_cast<uint32_t>(feed.tokens.size());
  if (provide(state, rows)) return &state;
  std::erase_if(states_, [&](const auto& other) {  // of sequences that feed no rows now
    return std::ranges::find(feeds_, other.first, &DraftFeed::sequence) == feeds_.end();
  });
  if (provide(state, rows)) return &state;
  states_.erase(feed.sequence);
  return nullptr;
}

// Takes pages for so many rows behind the last one, if need be those of snapshots, and gives back those behind the
// windows. Rows of earlier drafts are overwritten.
bool DraftHead::provide(State& state, uint32_t rows) {
  const uint32_t length = state.end - state.base;
  for (size_t group = 0; group < state.pages.size(); ++group) {
    PageTable& pages = state.pages[group];
    pages.drop_before(first_seen_page(model_->program.groups[group].window, length));
    while (pages.end() < pages_for(length + rows))
      if (!pages.grow() && !snapshots_.evict()) return false;
  }
  return true;
}

bool DraftHead::start(TokenClass token_class) {
  parts_.clear();
  class_ = token_class;
  uint32_t rows = 0, wanted = 0;
  for (size_t i = 0; i < feeds_.size(); ++i) {
    const auto count = static_cast<uint32_t>(feeds_[i].tokens.size());
    const State* state = count == 0 ? nullptr : state_of(feeds_[i]);
    if (state == nullptr) continue;
    parts_.push_back({.feed = i, .position = state->end - state->base, .rows = count});
    rows += count;
    ++wanted;
  }
  if (parts_.empty()) {
    feeds_.clear();
    return false;
  }
  step_.reset(class_, text_counts(rows, wanted), wanted, 0);
  uint32_t row = 0;
  for (uint32_t i = 0; i < parts_.size(); ++i) {
    const DraftFeed& feed = feeds_[parts_[i].feed];
    fill({feed.tokens, feed.carried}, parts_[i], i, row);
    row += parts_[i].rows;
  }
  start_step();
  return true;
}

void DraftHead::fill(const Taken& taken, const Part& part, uint32_t sequence, uint32_t row) {
  const State& state = states_.at(feeds_[part.feed].sequence);
  for (size_t i = 0; i < carried_.size(); ++i) {
    const auto& [name, input, symbol, columns] = carried_[i];
    const bool all = symbol == Symbol::rows;
    std::copy_n(taken.carried[i].begin(), (all ? part.rows : 1) * columns,
                step_.input_f32(input).subspan((all ? row : sequence) * columns).begin());
  }
  if (in_place_)
    step_.input_i32(tokens_)[sequence] = taken.tokens.back();
  else
    std::ranges::copy(taken.tokens, step_.input_i32(tokens_).subspan(row).begin());
  for (uint32_t i = 0; i < part.rows; ++i) {
    step_.positions()[row + i] = static_cast<int32_t>(part.position + i);
    step_.row_sequences()[row + i] = static_cast<int32_t>(sequence);
    if (positions_) step_.input_i32(*positions_)[row + i] = static_cast<int32_t>(state.base + part.position + i + 1);
  }
  for (uint32_t group = 0; group < state.pages.size(); ++group) {
    const PageTable& pages = state.pages[group];
    step_.first_page(group, sequence) = static_cast<int32_t>(pages.first());
    for (uint32_t i = pages.first(); i < pages.end(); ++i)
      step_.pages(group, sequence)[i - pages.first()] = static_cast<int32_t>(pages.page(i));
  }
  step_.input_i32(wanted_)[sequence] = static_cast<int32_t>(row + part.rows - 1);
}

void DraftHead::start_step() {
  step_.fill_ropes();
  for (SampleRow& row : step_.sample_rows()) row.candidates = kCandidates;
  const std::span results = std::span(results_).first(parts_.size());
  const std::span rows = std::span(rows_).first(parts_.size() * width_);
  const ReadRequest reads[] = {{sample_, std::as_writable_bytes(results)}, {hidden_out_, std::as_writable_bytes(rows)}};
  ticket_ = runner_->start(step_, reads);
}

bool DraftHead::poll() {
  const std::optional<Completion> completion = runner_->poll();
  if (!completion) return false;
  if (ticket_ && completion->ticket == *ticket_) {
    ticket_.reset();
    land(completion->status.ok());
  }
  return true;
}

// Takes one drafted token of each sequence, and starts another step for sequences that want more. A head whose step
// failed drafts nothing.
void DraftHead::land(bool well) {
  std::vector<std::pair<Part, Taken>> next;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const DraftFeed& feed = feeds_[parts_[i].feed];
    const auto found = states_.find(feed.sequence);
    if (found == states_.end()) continue;  // forgotten meanwhile
    if (!well) {
      states_.erase(found);
      continue;
    }
    State& state = found->second;
    if (state.drafts.empty()) state.end = feed.begin + static_cast<uint32_t>(feed.tokens.size());
    if (feed.drafts == 0 || results_[i].finite == 0) continue;
    const auto drafted = static_cast<uint32_t>(state.drafts.size());
    state.drafts.push_back(choose(results_[i], feed.sampling, state.end + drafted));
    if (drafted + 1 == feed.drafts || (!in_place_ && !provide(state, drafted + 1))) continue;
    const uint32_t last = state.end - state.base - 1;
    const Part part{.feed = parts_[i].feed, .position = in_place_ ? last : last + drafted + 1, .rows = 1};
    next.emplace_back(part, further(part, i));
  }
  parts_.clear();
  if (next.empty()) return feeds_.clear();
  const auto count = static_cast<uint32_t>(next.size());
  step_.reset(TokenClass::decode, text_counts(count, count), count, 0);
  for (uint32_t i = 0; i < count; ++i) {
    parts_.push_back(next[i].first);
    fill(next[i].second, next[i].first, i, i);
  }
  start_step();
}

// What a further guess takes: the last guess and its hidden row, and what else the last row of the text took.
DraftHead::Taken DraftHead::further(const Part& part, size_t result) const {
  const DraftFeed& feed = feeds_[part.feed];
  Taken taken{.tokens = std::span(&states_.at(feed.sequence).drafts.back(), 1), .carried = {}};
  for (size_t i = 0; i < carried_.size(); ++i)
    taken.carried.push_back(i == hidden_ ? std::span(rows_).subspan(result * width_, width_)
                                         : feed.carried[i].last(carried_[i].columns));
  return taken;
}

}  // namespace sluice
