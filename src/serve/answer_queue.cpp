#include "serve/answer_queue.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr auto kWarmUpPause = std::chrono::milliseconds(1);
constexpr auto kPageCountPause = std::chrono::milliseconds(50);  // counting looks at every page of every sequence

}  // namespace

AnswerQueue::AnswerQueue(ModelShelf& shelf, uint32_t waiting, size_t clients)
    : shelf_(&shelf), waiting_limit_(waiting), clients_(clients) {
  shelf.on_change([this] {
    const std::lock_guard lock(mutex_);
    shelf_changed_ = true;
    wake_.notify_one();
  });
}

AnswerPlaces AnswerQueue::new_places(size_t recipe) const {
  const std::shared_ptr<const ModelRecipe> known = shelf_->recipe(recipe);
  return AnswerPlaces(known == nullptr ? 1 : known->running, waiting_limit_, clients_);
}

size_t AnswerQueue::most_parts(size_t recipe) const { return new_places(recipe).most_parts(); }

Checked AnswerQueue::take_places(size_t recipe, size_t client, size_t parts) {
  if (closed_) return ends_soon();
  if (!models_.contains(recipe)) {
    // What is known of models that are gone goes when another model comes.
    std::erase_if(models_,
                  [&](const auto& one) { return one.second.places.is_idle() && shelf_->recipe(one.first) == nullptr; });
    models_.emplace(recipe, OfModel{.places = new_places(recipe)});
  }
  return places_of(recipe).take(client, parts);
}

Outcome<uint64_t> AnswerQueue::submit(std::vector<AnswerJob> jobs, Claim claim, AnswerSink sink) {
  const size_t recipe = jobs[0].use->recipe();
  const std::lock_guard lock(mutex_);
  TRY_STATUS(take_places(recipe, claim.client, jobs.size()));
  const uint64_t request = ++last_request_;
  const auto shared = std::make_shared<AnswerSink>(std::move(sink));
  size_t index = 0;
  for (AnswerJob& job : jobs)
    submitted_.push_back({.request = request,
                          .index = index++,
                          .recipe = recipe,
                          .claim = claim,
                          .job = std::move(job),
                          .sink = shared,
                          .submitted = Clock::now()});
  wake_.notify_one();
  return request;
}

Outcome<uint64_t> AnswerQueue::want(ModelPlace place, Claim claim, ModelSink sink) {
  const std::lock_guard lock(mutex_);
  TRY_STATUS(take_places(place.recipe, claim.client, 1));
  wanted_.push_back({.request = ++last_request_, .place = place, .client = claim.client, .sink = std::move(sink)});
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
  const auto found = models_.find(recipe);
  return found == models_.end() ? 0 : found->second.places.running();
}

uint32_t AnswerQueue::waiting(size_t recipe) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(recipe);
  return found == models_.end() ? 0 : found->second.places.waiting();
}

uint64_t AnswerQueue::held_pages(size_t recipe) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(recipe);
  return found == models_.end() ? 0 : found->second.held_pages;
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
        places_of(want->place.recipe).leave(want->client);
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
        if (is_its(part)) places_of(part.recipe).leave(part.claim.client);
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
  for (const Want& want : answered) places_of(first.recipe).leave(want.client);
  lock.unlock();
  for (Want& want : answered) {
    if (!loaded) {
      want.sink(loaded.error());
      continue;
    }
    want.sink(shelf_->use_loaded(want.place));
  }
}

// End where none waits for the model.
std::list<AnswerQueue::Part>::iterator AnswerQueue::next_waiting(size_t recipe) {
  const AnswerPlaces& places = places_of(recipe);
  const auto comes_before = [&](const Claim& a, const Claim& b) {
    return a.client == b.client ? a.priority < b.priority : places.comes_before(a.client, b.client);
  };
  auto next = waiting_.end();
  for (auto part = waiting_.begin(); part != waiting_.end(); ++part)
    if (part->recipe == recipe && (next == waiting_.end() || comes_before(part->claim, next->claim))) next = part;
  return next;
}

void AnswerQueue::start_waiting() {
  std::list<Part> begun;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [recipe, model] : models_) {
      AnswerPlaces& places = model.places;
      while (places.has_free_place()) {
        const auto next = next_waiting(recipe);
        if (next == waiting_.end()) break;
        places.begin(next->claim.client);
        begun.splice(begun.end(), waiting_, next);
      }
    }
  }
  for (Part& part : begun) begin(part);
  running_.splice(running_.end(), begun);
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
  if (!ended.empty() || (!running_.empty() && Clock::now() >= next_page_count_)) {
    for (const std::list<Part>* parts : {&std::as_const(running_), &ended})
      for (const Part& part : *parts)
        if (!pages.contains(part.recipe)) pages[part.recipe] = part.job.use->engine().stats().held_pages;
    next_page_count_ = Clock::now() + kPageCountPause;
  }
  const std::lock_guard lock(mutex_);
  for (const Part& part : ended) places_of(part.recipe).end(part.claim.client);
  for (const auto& [recipe, held] : pages) models_.at(recipe).held_pages = held;
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
