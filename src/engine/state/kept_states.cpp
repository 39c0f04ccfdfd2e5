#include "engine/state/kept_states.h"

#include <set>
#include <utility>

namespace sluice {

StateIdentity KeptStates::identity(const std::string& adapters) {
  return {.digest = by_.digest_with(adapters),
          .numerics_id = by_.numerics_id,
          .any_class = cache_->any_class(),
          .pages = [this](uint32_t begins, uint32_t length) { return pages_->pages(begins, length); }};
}

KeptStates::~KeptStates() {
  if (active_) active_->stop = true;
}

bool KeptStates::recall(RequestId request, const CachedHistory& text, uint32_t bound) {
  if (!store_->finds() || cut_below(bound) <= cache_->reach(text, bound)) return false;
  waiting_.push_back({request, &text, bound});
  return true;
}

// One task runs at a time.
void KeptStates::begin_task(std::function<void()> task) {
  if (!tasks_) tasks_ = std::make_unique<TaskQueue>(1);
  tasks_->begin(0, std::move(task));
}

std::optional<KeptStates::Recalled> KeptStates::advance() {
  if (!active_ && !begin_next()) {
    if (waiting_.empty()) return std::nullopt;
    const RequestId request = waiting_.front().request;  // the cache has its state by now
    waiting_.pop_front();
    return Recalled{request, 0};
  }
  if (tasks_->busy()) {
    std::vector<uint64_t> ended;
    tasks_->take_ended(ended, /*wait=*/false);
    if (tasks_->busy()) return std::nullopt;
  }
  if (!active_->writes.empty()) return std::nullopt;
  if (active_->stop) return end(0);
  switch (active_->stage) {
    case Stage::finding: return take_found();
    case Stage::reading: return take_read();
    case Stage::writing: return take_written();
  }
  return std::nullopt;
}

// Begins the next waiting recall. False: none waits, or the cache has so much by now that no state can be longer.
bool KeptStates::begin_next() {
  if (waiting_.empty()) return false;
  const auto [request, text, bound] = waiting_.front();
  const uint32_t least = cache_->reach(*text, bound), most = cut_below(bound);
  if (most <= least) return false;
  waiting_.pop_front();
  active_ = std::make_unique<Active>();
  active_->request = request;
  active_->least = least;
  active_->most = most;
  active_->restored = cache_->empty();
  active_->restored.history = text->history;
  active_->restored.adapters = text->adapters;
  find();
  return true;
}

void KeptStates::find() {
  active_->stage = Stage::finding;
  begin_task([this, of = active_.get()] {
    of->found = store_->find(identity(of->restored.adapters), of->restored.history, of->least, of->most);
  });
}

std::optional<KeptStates::Recalled> KeptStates::take_found() {
  if (active_->found.length == 0 || !pages_->take(active_->found.length, active_->restored)) return end(0);
  active_->part = 0;
  active_->pages.emplace(pages_->reading(active_->found.parts[0].reader, active_->restored));
  read_on();
  return std::nullopt;
}

void KeptStates::read_on() {
  active_->stage = Stage::reading;
  begin_task([this, of = active_.get()] {
    of->status = of->pages->read_on(of->stop);
    if (!of->status) store_->set_aside(of->found.parts[of->part].path, of->status.error());
  });
}

// After a damaged file it looks for a shorter state.
std::optional<KeptStates::Recalled> KeptStates::take_read() {
  if (!active_->status) {
    active_->most = active_->found.length - kCut;
    cache_->drop(active_->restored);
    if (active_->most <= active_->least) return end(0);
    find();
    return std::nullopt;
  }
  active_->writes = pages_->write_arrived(*active_->pages);
  active_->stage = Stage::writing;
  return active_->writes.empty() ? take_written() : std::nullopt;
}

std::optional<KeptStates::Recalled> KeptStates::take_written() {
  if (!active_->status) return end(0);  // the device failed
  if (active_->pages->done() && ++active_->part == active_->found.parts.size()) {
    cache_->remember(active_->restored);
    return end(active_->found.length);
  }
  if (active_->pages->done())
    active_->pages.emplace(pages_->reading(active_->found.parts[active_->part].reader, active_->restored));
  read_on();
  return std::nullopt;
}

KeptStates::Recalled KeptStates::end(uint32_t length) {
  const Recalled recalled{active_->request, length};
  active_.reset();
  return recalled;
}

bool KeptStates::take(const Completion& completion) {
  if (!active_ || std::erase(active_->writes, completion.ticket) == 0) return false;
  if (active_->status) active_->status = completion.status;
  return true;
}

void KeptStates::stop(RequestId request) {
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.request == request; });
  if (active_ && active_->request == request) active_->stop = true;
}

bool KeptStates::stop_reading() {
  if (!active_ || active_->stage == Stage::finding) return false;
  active_->stop = true;
  return true;
}

void KeptStates::mark_pages(uint32_t group, std::vector<bool>& held) const {
  if (!active_) return;
  const PageTable& table = active_->restored.tables[group];
  for (uint32_t i = table.first(); i < table.end(); ++i) held[table.page(i)] = true;
}

void KeptStates::keep(const CachedHistory& text, const std::vector<uint32_t>& boundaries) {
  if (!store_->keeps()) return;
  std::set<uint32_t> lengths(boundaries.begin(), boundaries.end());
  lengths.insert(cache_->whole_blocks(text));
  for (const uint32_t length : lengths) {
    const std::optional<std::vector<PageTable>> tables = cache_->snapshot_tables(text, length);
    if (!tables) continue;
    store_->keep(identity(text.adapters), text.history, length, [&](SaveWriter& writer, uint32_t begins) {
      return pages_->write(writer, *tables, pages_->pages(begins, length));
    });
  }
}

}  // namespace sluice
