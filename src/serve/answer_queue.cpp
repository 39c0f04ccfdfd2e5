#include "serve/answer_queue.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr auto kWarmUpPause = std::chrono::milliseconds(1);
constexpr auto kPageCountPause = std::chrono::milliseconds(50);  // counting looks at every page of every sequence

}  // namespace

AnswerQueue::AnswerQueue(ModelShelf& shelf, uint32_t waiting) : shelf_(&shelf), waiting_limit_(waiting) {
  shelf.on_change([this] {
    const std::lock_guard lock(mutex_);
    shelf_changed_ = true;
    wake_.notify_one();
  });
}

size_t AnswerQueue::room(size_t recipe) const {
  const std::shared_ptr<const ModelRecipe> known = shelf_->recipe(recipe);
  return size_t{known == nullptr ? 0 : known->running} + waiting_limit_;
}

bool AnswerQueue::has_room(size_t recipe, size_t parts) const {
  return !closed_ && count_of(recipe).known + parts <= room(recipe);
}

AnswerQueue::Count AnswerQueue::count_of(size_t recipe) const {
  const auto count = counts_.find(recipe);
  return count == counts_.end() ? Count() : count->second;
}

void AnswerQueue::forget(size_t recipe, size_t parts) {
  Count& count = counts_.at(recipe);
  count.known -= static_cast<uint32_t>(parts);
  if (count.known == 0) counts_.erase(recipe);
}

std::optional<uint64_t> AnswerQueue::submit(std::vector<AnswerJob> jobs, AnswerSink sink) {
  const size_t recipe = jobs[0].use->recipe();
  const std::lock_guard lock(mutex_);
  if (!has_room(recipe, jobs.size())) return std::nullopt;
  const uint64_t request = ++last_request_;
  const auto shared = std::make_shared<AnswerSink>(std::move(sink));
  size_t index = 0;
  counts_[recipe].known += static_cast<uint32_t>(jobs.size());
  for (AnswerJob& job : jobs)
    submitted_.push_back({.request = request,
                          .index = index++,
                          .recipe = recipe,
                          .job = std::move(job),
                          .sink = shared,
                          .submitted = Clock::now()});
  wake_.notify_one();
  return request;
}

std::optional<uint64_t> AnswerQueue::want(ModelPlace place, ModelSink sink) {
  const std::lock_guard lock(mutex_);
  if (!has_room(place.recipe, 1)) return std::nullopt;
  ++counts_[place.recipe].known;
  wanted_.push_back({.request = ++last_request_, .place = place, .sink = std::move(sink)});
  wake_.notify_one();
  return last_request_;
}

bool AnswerQueue::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  tasks_.push_back(std::move(task));
  wake_.notify_one();
  return true;
}

void AnswerQueue::cancel(uint64_t request) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(request);
  wake_.notify_one();
}

void AnswerQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  wake_.notify_one();
}

uint32_t AnswerQueue::running(size_t recipe) const {
  const std::lock_guard lock(mutex_);
  return count_of(recipe).runs;
}

uint32_t AnswerQueue::waiting(size_t recipe) const {
  const std::lock_guard lock(mutex_);
  const Count count = count_of(recipe);
  return count.known - count.runs;
}

uint64_t AnswerQueue::held_pages(size_t recipe) const {
  const std::lock_guard lock(mutex_);
  const auto held = held_pages_.find(recipe);
  return held == held_pages_.end() ? 0 : held->second;
}

void AnswerQueue::run() {
  while (take_commands()) {
    load_next();
    start_waiting();
    step();
  }
  running_.clear();
  shelf_->unload_all();
}

// Meanwhile models prefetch, and those whose time is over go.
void AnswerQueue::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto has_work = [&] {
    return !submitted_.empty() || !wanted_.empty() || !cancelled_.empty() || !tasks_.empty() || !waiting_.empty() ||
           !running_.empty() || closed_;
  };
  const auto may_go_on = [&] { return has_work() || shelf_changed_; };
  while (!has_work()) {
    shelf_changed_ = false;
    lock.unlock();
    const ModelShelf::Clock::time_point end = shelf_->unload_expired();
    const bool warms = shelf_->warm_up();
    lock.lock();
    if (warms)
      wake_.wait_for(lock, kWarmUpPause, may_go_on);
    else if (end == ModelShelf::kNever)
      wake_.wait(lock, may_go_on);
    else
      wake_.wait_until(lock, end, may_go_on);
  }
}

// Waits while there is nothing to do. False: the queue is closed and empty.
bool AnswerQueue::take_commands() {
  std::vector<Part> submitted;
  std::list<Want> forgotten;  // end outside the lock
  std::vector<uint64_t> cancelled;
  std::vector<std::function<void()>> tasks;
  {
    std::unique_lock lock(mutex_);
    wait_for_work(lock);
    submitted.swap(submitted_);
    cancelled.swap(cancelled_);
    tasks.swap(tasks_);
    if (closed_ && submitted.empty() && tasks.empty() && wanted_.empty() && waiting_.empty() && running_.empty())
      return false;
    for (auto want = wanted_.begin(); want != wanted_.end();) {
      const auto next = std::next(want);
      if (std::ranges::count(cancelled, want->request) > 0) {
        forget(want->place.recipe, 1);
        forgotten.splice(forgotten.end(), wanted_, want);
      }
      want = next;
    }
  }
  for (const std::function<void()>& task : tasks) task();
  for (Part& part : submitted) waiting_.push_back(std::move(part));
  for (const uint64_t request : cancelled) {
    const auto is_its = [request](const Part& part) { return part.request == request; };
    {
      const std::lock_guard lock(mutex_);
      for (const Part& part : waiting_)
        if (is_its(part)) forget(part.recipe, 1);
    }
    std::erase_if(waiting_, is_its);
    for (Part& part : running_) {
      if (!is_its(part)) continue;
      part.session->cancel();
      part.sink.reset();
    }
  }
  return true;
}

// One model a round, so that answers go on between two loads. All who want it hear of it.
void AnswerQueue::load_next() {
  std::unique_lock lock(mutex_);
  if (wanted_.empty()) return;
  const ModelPlace first = wanted_.front().place;
  lock.unlock();
  Outcome<std::shared_ptr<ModelUse>> loaded = shelf_->load(first);
  lock.lock();
  std::list<Want> answered;
  for (auto want = wanted_.begin(); want != wanted_.end();) {
    const auto next = std::next(want);
    if (want->place.recipe == first.recipe) answered.splice(answered.end(), wanted_, want);
    want = next;
  }
  if (!answered.empty()) forget(first.recipe, answered.size());
  lock.unlock();
  for (Want& want : answered) {
    if (!loaded) {
      want.sink(loaded.error());
      continue;
    }
    want.sink(shelf_->use_loaded(want.place));
  }
}

void AnswerQueue::start_waiting() {
  std::map<size_t, uint32_t> runs;  // by recipe
  for (const Part& part : running_) ++runs[part.recipe];
  for (auto part = waiting_.begin(); part != waiting_.end();) {
    const auto next = std::next(part);
    const size_t recipe = part->recipe;
    if (runs[recipe] < shelf_->recipe(recipe)->running) {  // it is there, because the part uses it
      ++runs[recipe];
      running_.splice(running_.end(), waiting_, part);
      begin(running_.back());
    }
    part = next;
  }
}

void AnswerQueue::begin(Part& part) {
  const ServedModel& model = part.job.use->model();
  part.queued_seconds = std::chrono::duration<double>(Clock::now() - part.submitted).count();
  part.session = std::make_unique<ChatSession>(*model.text, part.job.use->engine(), *model.text->dialect);
  if (const Status begun = part.session->begin(part.job.prompt, part.job.settings, part.job.message_ends); !begun)
    part.news.failure = begun.error();
  part.job.prompt = {};
}

// A step of each engine that has answers. False: the device is still at work for all of them.
bool AnswerQueue::step_engines() {
  std::vector<Engine*> engines;
  for (const Part& part : running_)
    if (Engine* engine = &part.job.use->engine(); std::ranges::count(engines, engine) == 0) engines.push_back(engine);
  bool all_in_flight = !engines.empty();
  for (Engine* engine : engines) all_in_flight = engine->step() == StepState::in_flight && all_in_flight;
  return !all_in_flight;
}

void AnswerQueue::step() {
  const bool progressed = step_engines();
  std::list<Part> ended;
  for (auto part = running_.begin(); part != running_.end();) {
    const auto next = std::next(part);
    collect(*part);
    if (part->session->running())
      tell(*part);
    else
      ended.splice(ended.end(), running_, part);
    part = next;
  }
  // A client that has read its last news finds its place and its model free.
  for (Part& part : ended) part.session.reset();
  count(ended);
  for (Part& part : ended) {
    part.job = {};
    tell(part);
  }
  if (!progressed && !running_.empty()) running_.front().job.use->engine().wait();
  shelf_->unload_expired();
}

// The sessions of `ended` have given back their pages.
void AnswerQueue::count(const std::list<Part>& ended) {
  std::map<size_t, uint64_t> pages;
  if (!ended.empty() || Clock::now() >= next_page_count_) {
    for (const std::list<Part>* parts : {&std::as_const(running_), &ended})
      for (const Part& part : *parts)
        if (!pages.contains(part.recipe)) pages[part.recipe] = part.job.use->engine().stats().held_pages;
    next_page_count_ = Clock::now() + kPageCountPause;
  }
  const std::lock_guard lock(mutex_);
  for (auto& [recipe, count] : counts_) count.runs = 0;
  for (const Part& part : running_) ++counts_.at(part.recipe).runs;
  for (const Part& part : ended) forget(part.recipe, 1);
  for (const auto& [recipe, held] : pages) held_pages_[recipe] = held;
}

void AnswerQueue::collect(Part& part) {
  if (part.session->running()) {  // else it could not begin
    const Status collected = part.session->collect();
    part.news.events = part.session->take_events();
    if (!collected) part.news.failure = collected.error();
  }
  part.news.usage = part.session->usage();
}

void AnswerQueue::tell(Part& part) {
  AnswerNews news = std::exchange(part.news, {});
  if (part.sink == nullptr || (news.events.empty() && !news.failure)) return;
  news.part = part.index;
  news.queued_seconds = part.queued_seconds;
  (*part.sink)(std::move(news));
}

}  // namespace sluice
