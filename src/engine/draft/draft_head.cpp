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

// The program is the model's, which outlives it.
Result<PlanRequest> plan_request(const DraftModel& model, const DraftHead::Limits& limits) {
  const Program& program = model.program;
  if (program.groups.size() != 1 || program.groups[0] != PageGroup{}) {
    return error(ErrorKind::unsupported, "draft head: has ", program.groups.size(),
                 " kinds of state: want keys and values without a window");
  }
  const uint32_t of_one = pages_for(limits.context);
  PlanRequest request{
      .program = &program, .arithmetic = limits.arithmetic, .maxima = {}, .pages = {of_one * limits.sequences}};
  request.maxima = {.counts = text_counts(limits.rows, limits.sequences),
                    .sequences = limits.sequences,
                    .pages_per_sequence = {of_one}};
  TRY(request.weights, placed_shapes(program, *model.weights));
  return request;
}

}  // namespace

Result<std::vector<MemoryLine>> DraftHead::memory(const DraftModel& model, const Device& device, const Limits& limits) {
  TRY(const PlanRequest request, plan_request(model, limits));
  TRY(const std::unique_ptr<Plan> plan, device.plan(request));
  std::vector<MemoryLine> lines = plan->memory();
  lines.push_back({Domain::host, Purpose::staging, StepBuffer(model.program, request.maxima).words().size_bytes()});
  return lines;
}

Result<std::unique_ptr<DraftHead>> DraftHead::create(DraftModel model, Device& device, Budget& budget,
                                                     const Limits& limits) {
  auto kept = std::make_unique<DraftModel>(std::move(model));
  TRY(const PlanRequest request, plan_request(*kept, limits));
  TRY(std::unique_ptr<Plan> plan, device.plan(request));
  TRY_STATUS(budget.has_room(plan->memory()));
  TRY(std::unique_ptr<Runner> runner, device.place(std::move(plan), *kept->weights, budget));
  std::unique_ptr<DraftHead> head(
      new DraftHead(std::move(kept), std::move(runner), request.maxima, request.pages.front()));
  TRY_STATUS(head->find_ports());
  const uint64_t bytes = head->step_.words().size_bytes() + head->results_.size() * sizeof(SampleResult) +
                         head->rows_.size() * sizeof(float);
  TRY(head->reserved_, budget.reserve(Domain::host, Purpose::staging, bytes));
  return head;
}

DraftHead::DraftHead(std::unique_ptr<DraftModel> model, std::unique_ptr<Runner> runner, const StepMaxima& maxima,
                     uint32_t pages)
    : model_(std::move(model)),
      runner_(std::move(runner)),
      pool_(pages),
      step_(model_->program, maxima),
      results_(maxima.counts[Symbol::wanted]) {}

Status DraftHead::find_ports() {
  const Program& program = model_->program;
  const auto find = [](const std::vector<NamedValue>& list, const char* name) -> Result<uint32_t> {
    for (uint32_t i = 0; i < list.size(); ++i)
      if (list[i].name == name) return i;
    return error(ErrorKind::unsupported, "draft head: has no value ", name,
                 ": want tokens, hidden, wanted, and sample, hidden");
  };
  TRY(tokens_, find(program.inputs, "tokens"));
  TRY(hidden_, find(program.inputs, "hidden"));
  TRY(wanted_, find(program.inputs, "wanted"));
  TRY(const uint32_t sample, find(program.outputs, "sample"));
  TRY(const uint32_t hidden, find(program.outputs, "hidden"));
  sample_ = program.outputs[sample].value;
  hidden_out_ = program.outputs[hidden].value;
  width_ = static_cast<uint32_t>(program.values[hidden_out_].type.columns());
  rows_.resize(results_.size() * width_);
  return {};
}

std::vector<int32_t> DraftHead::draft(uint64_t sequence, size_t known) const {
  const auto found = states_.find(sequence);
  if (found == states_.end() || found->second.end + 1 != known) return {};
  return found->second.drafts;
}

void DraftHead::forget(uint64_t sequence) {
  states_.erase(sequence);
  // Rows that were fed and not begun would bring the state back. Running rows find no state when they land.
  if (!busy()) std::erase_if(feeds_, [&](const DraftFeed& feed) { return feed.sequence == sequence; });
}

// The state that the rows of `feed` extend; null if there are no pages for them.
DraftHead::State* DraftHead::state_of(const DraftFeed& feed) {
  State& state = states_.try_emplace(feed.sequence, State{.pages = PageTable(pool_)}).first->second;
  state.drafts.clear();
  if (feed.begin > state.end || feed.begin < state.base) {
    state.pages.clear();
    state.base = feed.begin;
  }
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

// Takes pages for so many rows behind the last one. Rows of earlier drafts are overwritten.
bool DraftHead::provide(State& state, uint32_t rows) {
  while (state.pages.end() < pages_for(state.end - state.base + rows))
    if (!state.pages.grow()) return false;
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
    fill(feed.hidden, feed.tokens, parts_[i], i, row);
    row += parts_[i].rows;
  }
  start_step();
  return true;
}

void DraftHead::fill(std::span<const float> hidden, std::span<const int32_t> tokens, const Part& part,
                     uint32_t sequence, uint32_t row) {
  const PageTable& pages = states_.at(feeds_[part.feed].sequence).pages;
  std::copy_n(hidden.begin(), size_t{part.rows} * width_,
              step_.input_f32(hidden_).begin() + static_cast<std::ptrdiff_t>(size_t{row} * width_));
  for (uint32_t i = 0; i < part.rows; ++i) {
    step_.input_i32(tokens_)[row + i] = tokens[i];
    step_.positions()[row + i] = static_cast<int32_t>(part.position + i);
    step_.row_sequences()[row + i] = static_cast<int32_t>(sequence);
  }
  step_.first_page(0, sequence) = 0;
  for (uint32_t i = 0; i < pages.end(); ++i) step_.pages(0, sequence)[i] = static_cast<int32_t>(pages.page(i));
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
  std::vector<Part> next;
  std::vector<float> hidden;
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
    if (drafted + 1 == feed.drafts || !provide(state, drafted + 1)) continue;
    next.push_back({.feed = parts_[i].feed, .position = state.end - state.base + drafted, .rows = 1});
    const auto from = rows_.begin() + static_cast<std::ptrdiff_t>(i * width_);
    hidden.insert(hidden.end(), from, from + width_);
  }
  parts_ = std::move(next);
  if (parts_.empty()) return feeds_.clear();
  const auto count = static_cast<uint32_t>(parts_.size());
  step_.reset(TokenClass::decode, text_counts(count, count), count, 0);
  for (uint32_t i = 0; i < count; ++i) {
    const State& state = states_.at(feeds_[parts_[i].feed].sequence);
    fill(std::span(hidden).subspan(size_t{i} * width_, width_), std::span(&state.drafts.back(), 1), parts_[i], i, i);
  }
  start_step();
}

}  // namespace sluice
