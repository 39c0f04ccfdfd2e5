#include "engine/admission.h"

#include <algorithm>

namespace sluice {

void Admission::admit() {
  uint32_t running = 0;
  for (const auto& [id, job] : board_->jobs)
    running += job.state == Job::State::running || job.state == Job::State::reading ? 1 : 0;
  for (auto& [id, job] : board_->jobs) {
    if (job.state != Job::State::waiting) continue;
    if (running == sequences_ || (running > 0 && !has_room(job)) || !has_adapters(job)) return;
    ++running;
    const CachedHistory& text = board_->sequence_of(job).text;
    if (states_ != nullptr && states_->recall(job.id, text, resume_bound(job, text)))
      job.state = Job::State::reading;
    else
      start(job, 0);
  }
}

void Admission::start(Job& job, uint32_t recalled) {
  CachedHistory& text = board_->sequence_of(job).text;
  cache_->resume(text, resume_bound(job, text));
  if (!job.started) {
    job.progress.reused_tokens = text.cached;
    job.progress.restored_tokens = recalled;
  }
  job.started = true;
  job.state = Job::State::running;
}

void Admission::mark_pages(const OpenSequence& sequence, uint32_t group, std::vector<bool>& held) {
  const Slots& slots = sequence.text.slots[group];
  for (const PageTable* table : {&sequence.text.tables[group], &slots.now, &slots.next})
    for (uint32_t i = table->first(); i < table->end(); ++i) held[table->page(i)] = true;
}

// Distinct pages that running sequences hold, with those that are being filled from a file.
uint32_t Admission::pages_of_running(uint32_t group) const {
  std::vector<bool> held(cache_->pool(group).size(), false);
  for (const auto& [id, sequence] : board_->sequences)
    if (is_running(sequence)) mark_pages(sequence, group, held);
  if (states_ != nullptr) states_->mark_pages(group, held);
  return static_cast<uint32_t>(std::count(held.begin(), held.end(), true));
}

uint64_t Admission::held_pages() const {
  uint64_t pages = 0;
  for (uint32_t group = 0; group < cache_->groups(); ++group) {
    std::vector<bool> held(cache_->pool(group).size(), false);
    for (const auto& [id, sequence] : board_->sequences) mark_pages(sequence, group, held);
    pages += static_cast<uint64_t>(std::count(held.begin(), held.end(), true));
  }
  return pages;
}

bool Admission::has_room(const Job& job) const {
  const uint64_t positions = board_->sequence_of(job).text.history.size() + job.tokens_left;
  for (uint32_t g = 0; g < cache_->groups(); ++g) {
    // Pages behind a window are freed as rows come. The extra pages of a chunk suffice for one sequence at a time.
    const uint32_t all = pages_for(positions);
    const PageGroup& group = cache_->group(g);
    uint32_t needed = group.window == 0 ? all : std::min(all, pages_for(group.window) + 2);
    if (group.kind == StateKind::slots) needed = kSlotsOfSequence;
    if (needed > cache_->pool(g).size() - pages_of_running(g)) return false;
  }
  return true;
}

// A job that has started before has its slot still.
bool Admission::has_adapters(Job& job) const {
  if (!job.adapter) job.adapter = hold_adapters_ ? hold_adapters_(job.request.adapters) : AdapterRow();
  return job.adapter.has_value();
}

bool Admission::is_running(const OpenSequence& sequence) const {
  return sequence.request != 0 && board_->jobs.at(sequence.request).state == Job::State::running;
}

bool Admission::reclaim() {
  if (cache_->evict()) return true;
  OpenSequence* oldest = nullptr;
  for (auto& [id, sequence] : board_->sequences) {
    if (is_running(sequence) || !sequence.text.holds_pages()) continue;
    if (oldest == nullptr || sequence.last_used < oldest->last_used) oldest = &sequence;
  }
  if (oldest == nullptr) return false;
  cache_->drop(oldest->text);
  return true;
}

void Admission::drop(Job& job) {
  cache_->drop(board_->sequence_of(job).text);
  job.state = Job::State::waiting;
}

bool Admission::provide(Job& job, Portion& portion, std::vector<PageCopy>& copies) {
  CachedHistory& text = board_->sequence_of(job).text;
  if (portion.drafts > 0 && cache_->provide(text, portion.end + portion.drafts, 1 + portion.drafts, copies))
    return true;
  portion.drafts = 0;
  while (!cache_->provide(text, portion.end, 1, copies)) {
    if (reclaim()) continue;
    if (states_ != nullptr && states_->stop_reading()) return false;  // its pages are freed soon
    const auto youngest = std::find_if(board_->jobs.rbegin(), board_->jobs.rend(),
                                       [](const auto& entry) { return entry.second.state == Job::State::running; });
    drop(youngest->second);
    if (youngest->first == job.id) return false;
  }
  return true;
}

}  // namespace sluice
