#include "serve/store/store_changes.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr auto kBetweenNews = std::chrono::milliseconds(100);

}  // namespace

std::optional<uint64_t> StoreChanges::pull(const OllamaName& name, PullSink tell, EndSink end) {
  join_ended();
  const std::lock_guard lock(mutex_);
  if (stopped_) return std::nullopt;
  auto pull =
      std::ranges::find_if(pulls_, [&](const Pull& one) { return !one.has_ended && one.name.path() == name.path(); });
  const bool is_new = pull == pulls_.end();
  if (is_new) {
    if (pulls_.size() >= kMostPulls) return std::nullopt;
    pull = pulls_.emplace(pulls_.end());
    pull->name = name;
  }
  if (!pull->latest.status.empty()) tell(pull->latest);
  pull->clients.emplace(++last_client_, Client{std::move(tell), std::move(end)});
  if (is_new) pull->thread = std::thread([this, &one = *pull] { run(one); });
  return last_client_;
}

void StoreChanges::leave(uint64_t client) {
  const std::lock_guard lock(mutex_);
  for (Pull& pull : pulls_)
    if (pull.clients.erase(client) > 0 && pull.clients.empty()) pull.stop = true;
}

void StoreChanges::change(std::function<Checked(ModelStore&)> work, EndSink end) {
  std::vector<uint64_t> ended;
  changes_.take_ended(ended, /*wait=*/false);
  changes_.begin(++last_change_, [this, work = std::move(work), end = std::move(end)] { end(work(*store_)); });
}

// Waits for the store and tells what is new meanwhile, also while the store has nothing to say.
void StoreChanges::run(Pull& pull) {
  for (;;) {
    std::optional<Checked> end;
    std::thread fetches([&] {
      Checked done = store_->pull(pull.name, [&](const PullProgress& news) { take(pull, news); }, pull.stop);
      const std::lock_guard lock(mutex_);
      end.emplace(std::move(done));
      wake_.notify_all();
    });
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kBetweenNews, [&] { return end.has_value(); })) tell(pull);
    tell(pull);
    // Clients who came while the pull was being stopped want it to go on.
    const bool goes_on = !*end && pull.stop && !pull.clients.empty() && !stopped_;
    if (goes_on) pull.stop = false;
    if (!goes_on) {
      for (const auto& [number, client] : pull.clients) client.end(*end);
      pull.clients.clear();
      pull.has_ended = true;
    }
    lock.unlock();
    fetches.join();
    if (!goes_on) return;
  }
}

// What is under way changes at once, bytes some times a second.
void StoreChanges::take(Pull& pull, const PullProgress& news) {
  const std::lock_guard lock(mutex_);
  const bool is_next = news.status != pull.latest.status;
  if (is_next) tell(pull);
  pull.latest = news;
  pull.is_told = false;
  if (is_next) tell(pull);
}

void StoreChanges::tell(Pull& pull) {
  if (std::exchange(pull.is_told, true)) return;
  for (const auto& [number, client] : pull.clients) client.tell(pull.latest);
}

void StoreChanges::join_ended() {
  std::list<Pull> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto pull = pulls_.begin(); pull != pulls_.end();) {
      const auto next = std::next(pull);
      if (pull->has_ended) ended.splice(ended.end(), pulls_, pull);
      pull = next;
    }
  }
  for (Pull& pull : ended) pull.thread.join();
}

void StoreChanges::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (Pull& pull : pulls_) pull.stop = true;
}

// No pull is added any more, and a list's elements stay where they are.
void StoreChanges::finish() {
  stop();
  for (Pull& pull : pulls_) pull.thread.join();
  pulls_.clear();
  std::vector<uint64_t> ended;
  while (changes_.busy()) changes_.take_ended(ended, /*wait=*/true);
}

}  // namespace sluice
