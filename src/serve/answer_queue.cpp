#include "serve/answer_queue.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr auto kWarmUpPause = std::chrono::milliseconds(1);

}  // namespace

std::optional<uint64_t> AnswerQueue::submit(std::vector<AnswerJob> jobs, AnswerSink sink) {
  const std::lock_guard lock(mutex_);
  if (closed_ || known_ + jobs.size() > size_t{limits_.running} + limits_.waiting) return std::nullopt;
  const uint64_t request = ++last_request_;
  const auto shared = std::make_shared<AnswerSink>(std::move(sink));
  size_t index = 0;
  for (AnswerJob& job : jobs)
    submitted_.push_back(
        {.request = request, .index = index++, .job = std::move(job), .sink = shared, .submitted = Clock::now()});
  known_ += static_cast<uint32_t>(jobs.size());
  wake_.notify_one();
  return request;
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

uint32_t AnswerQueue::running() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

uint32_t AnswerQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return known_ - runs_;
}

void AnswerQueue::run() {
  while (take_commands()) {
    start_waiting();
    step();
  }
}

// Waits while there is nothing to do. False: the queue is closed and empty.
bool AnswerQueue::take_commands() {
  std::vector<Part> submitted;
  std::vector<uint64_t> cancelled;
  {
    std::unique_lock lock(mutex_);
    const auto has_work = [&] {
      return !submitted_.empty() || !cancelled_.empty() || !waiting_.empty() || !running_.empty() || closed_;
    };
    while (!has_work()) {
      lock.unlock();
      const bool warms = engine_->warm_up();
      lock.lock();
      if (warms)
        wake_.wait_for(lock, kWarmUpPause, has_work);
      else
        wake_.wait(lock, has_work);
    }
    submitted.swap(submitted_);
    cancelled.swap(cancelled_);
    if (closed_ && submitted.empty() && waiting_.empty() && running_.empty()) return false;
  }
  for (Part& part : submitted) waiting_.push_back(std::move(part));
  for (const uint64_t request : cancelled) {
    const size_t before = waiting_.size();
    std::erase_if(waiting_, [request](const Part& part) { return part.request == request; });
    for (Part& part : running_) {
      if (part.request != request) continue;
      part.session->cancel();
      part.sink.reset();
    }
    const std::lock_guard lock(mutex_);
    known_ -= static_cast<uint32_t>(before - waiting_.size());
  }
  return true;
}

void AnswerQueue::start_waiting() {
  while (!waiting_.empty() && running_.size() < limits_.running) {
    running_.splice(running_.end(), waiting_, waiting_.begin());
    Part& part = running_.back();
    part.queued_seconds = std::chrono::duration<double>(Clock::now() - part.submitted).count();
    part.session = std::make_unique<ChatSession>(*text_, *engine_, *text_->dialect);
    if (const Status begun = part.session->begin(part.job.prompt, part.job.settings, part.job.message_ends); !begun)
      tell(part, {.failure = begun.error()});
    part.job.prompt = {};
  }
}

void AnswerQueue::step() {
  const StepState state = running_.empty() ? StepState::idle : engine_->step();
  for (Part& part : running_) collect(part);
  const auto has_ended = [](const Part& part) { return !part.session->running(); };
  const size_t ended = std::erase_if(running_, has_ended);
  {
    const std::lock_guard lock(mutex_);
    known_ -= static_cast<uint32_t>(ended);
    runs_ = static_cast<uint32_t>(running_.size());
  }
  if (state == StepState::in_flight && !running_.empty()) engine_->wait();
}

void AnswerQueue::collect(Part& part) {
  if (!part.session->running()) return;  // it could not begin
  const Status collected = part.session->collect();
  AnswerNews news{.events = part.session->take_events()};
  if (!collected) news.failure = collected.error();
  if (!news.events.empty() || news.failure) tell(part, std::move(news));
}

void AnswerQueue::tell(Part& part, AnswerNews news) const {
  if (part.sink == nullptr) return;
  news.part = part.index;
  news.usage = part.session->usage();
  news.queued_seconds = part.queued_seconds;
  (*part.sink)(std::move(news));
}

}  // namespace sluice
