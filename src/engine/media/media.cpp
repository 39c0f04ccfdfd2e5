#include "engine/media/media.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

uint64_t input_bytes(const MediaInput& input) {
  uint64_t words = 0;
  for (const TowerInput& one : input.inputs->inputs) words += one.words.size();
  return words * sizeof(uint32_t);
}

}  // namespace

Media::Media(std::vector<TowerModel> towers, Device& device, Budget& budget, Settings settings)
    : models_(std::move(towers)), device_(&device), budget_(&budget), settings_(std::move(settings)) {}

Status Media::give(MediaInput input) {
  CHECK(input.inputs != nullptr && input.content != MediaDigest{});
  const auto known = std::ranges::find(models_, input.tower, &TowerModel::kind);
  if (known == models_.end()) {
    return error(ErrorKind::unsupported, "media: the model has no ", program_name(input.tower),
                 ": want a model that has one");
  }
  const auto [found, is_new] = entries_.try_emplace(input.content);
  Entry& entry = found->second;
  entry.last_used = ++clock_;
  entry.failure.reset();
  if (!is_new) return {};
  entry.input = std::move(input);
  Status reserved = reserve(entry, input_bytes(entry.input));
  if (!reserved) entries_.erase(found);
  return reserved;
}

// As large as that, at the cost of what may be forgotten.
Status Media::reserve(Entry& entry, uint64_t bytes) {
  for (;;) {
    Status fits;
    if (entry.reserved.bytes() != 0) {
      fits = entry.reserved.resize(bytes);
    } else {
      Result<Reservation> made = budget_->reserve(Domain::host, Purpose::staging, bytes);
      if (made)
        entry.reserved = *std::move(made);
      else
        fits = std::move(made).error();
    }
    if (fits || !forget_one(&entry)) return fits;
  }
}

// What nobody shows, the longest unused first; then rows alone.
bool Media::forget_one(const Entry* except) {
  auto best = entries_.end();
  bool best_shown = true;
  for (auto one = entries_.begin(); one != entries_.end(); ++one) {
    const bool is_current = current_ && one->first == *current_;
    if (&one->second == except || is_current) continue;
    const bool shown = settings_.is_shown(one->first);
    if (shown && one->second.rows.empty()) continue;
    const bool better = best == entries_.end() || (best_shown && !shown) ||
                        (best_shown == shown && one->second.last_used < best->second.last_used);
    if (!better) continue;
    best = one;
    best_shown = shown;
  }
  if (best == entries_.end()) return false;
  if (best_shown) {
    best->second.rows = {};
    return static_cast<bool>(best->second.reserved.resize(input_bytes(best->second.input)));
  }
  std::erase(queue_, best->first);
  entries_.erase(best);
  return true;
}

Result<bool> Media::has(uint64_t user, std::span<const HistoryToken> elements) {
  bool all = true;
  for (size_t i = 0; i < elements.size(); ++i) {
    const MediaRow& media = elements[i].media;
    if (!elements[i].is_media() || (i > 0 && elements[i - 1].media.content == media.content)) continue;
    const auto found = entries_.find(media.content);
    if (found == entries_.end())
      return error(ErrorKind::not_found, "row ", media.row,
                   " of its picture or sound is not there: want it given again");
    Entry& entry = found->second;
    entry.last_used = ++clock_;
    if (entry.failure) return *entry.failure;
    if (!entry.rows.empty()) continue;
    all = false;
    const bool is_queued = current_ == media.content || std::ranges::find(queue_, media.content) != queue_.end();
    if (!is_queued) queue_.push_back(media.content);
  }
  if (!all) waiting_.insert(user);
  return all;
}

std::span<const float> Media::row(const MediaRow& media) const {
  const std::span<const float> rows = entries_.at(media.content).rows;
  return rows.subspan(size_t{media.row} * settings_.columns, settings_.columns);
}

bool Media::advance() {
  if (!current_) return start_next();
  Entry& entry = entries_.at(*current_);
  Tower& tower = *towers_.at(entry.input.tower);
  std::optional<Status> ended = tower.poll();
  if (!ended) return tower.computes_in_poll();
  finish(entry, *std::move(ended));
  return true;
}

void Media::finish(Entry& entry, Status status) {
  current_.reset();
  waiting_.clear();
  if (status) return;
  entry.rows = {};
  entry.failure = std::move(status).error();
}

// Whether one has begun or failed.
bool Media::start_next() {
  if (queue_.empty()) return false;
  current_ = queue_.front();
  queue_.erase(queue_.begin());
  Entry& entry = entries_.at(*current_);
  Status started = start(entry);
  if (!started) finish(entry, std::move(started));
  return true;
}

Status Media::start(Entry& entry) {
  const TowerInputs& inputs = *entry.input.inputs;
  const size_t elements = size_t{inputs.rows} * settings_.columns;
  TRY_STATUS(reserve(entry, input_bytes(entry.input) + elements * sizeof(float)));
  TRY(Tower* const tower, tower_for(entry.input.tower, inputs.rows));
  entry.rows.resize(elements);
  return tower->start(inputs, entry.rows);
}

// The other towers give way where the budget has no room for this one beside them.
Result<Tower*> Media::tower_for(ProgramKind kind, uint32_t rows) {
  std::unique_ptr<Tower>& tower = towers_[kind];
  if (tower != nullptr && tower->most_rows() >= rows) return tower.get();
  tower.reset();
  const TowerModel& model = *std::ranges::find(models_, kind, &TowerModel::kind);
  Result<std::unique_ptr<Tower>> made = Tower::create(model, *device_, *budget_, settings_.arithmetic, rows);
  if (!made && made.error().kind == ErrorKind::out_of_memory) {
    drop_towers();
    made = Tower::create(model, *device_, *budget_, settings_.arithmetic, rows);
  }
  if (!made) return error(made.error().kind, program_name(kind), ": ", made.error().text);
  towers_[kind] = *std::move(made);
  return towers_[kind].get();
}

void Media::drop_towers() {
  std::erase_if(towers_, [](const auto& one) { return one.second == nullptr || !one.second->busy(); });
}

}  // namespace sluice
