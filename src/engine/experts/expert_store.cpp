#include "engine/experts/expert_store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/files/file.h"
#include "base/threads.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// More than any by the past, less than what a step waits for.
constexpr double kAwaitedWorth = std::numeric_limits<double>::max();
constexpr uint32_t kMostPackers = 8;   // threads
constexpr uint32_t kMostWarming = 32;  // reads

}  // namespace

uint32_t packing_threads() { return std::min(available_processors(), kMostPackers); }

ExpertStore::ExpertStore(ExpertPlaces places, uint32_t slots, ExpertMemory& memory, std::optional<ReadRoom> room,
                         std::unique_ptr<ReadQueue> reads, std::unique_ptr<Replacement> replacement)
    : places_(std::move(places)),
      memory_(&memory),
      room_(std::move(room)),
      replacement_(std::move(replacement)),
      slots_(slots),
      slot_of_(size_t{places_.layers()} * places_.experts(), -1),
      uses_(slot_of_.size()),
      reads_(std::move(reads)) {
  for (auto& uses : last_use_) uses.resize(places_.layers());
  empty_.reserve(slots);
  for (uint32_t slot = slots; slot-- > 0;) empty_.push_back(slot);
  stats_.slots = slots;
  stats_.slot_bytes = places_.slot_bytes();
  stats_.experts = places_.total_experts();
  stats_.reader = reads_->description();
  if (room_) packing_ = std::make_unique<TaskQueue>(packing_threads());
}

ExpertStats ExpertStore::stats() const { return stats_; }

ReadAhead ExpertStore::way(Breadth breadth) const {
  return reads_->in_background() ? gauges_[static_cast<int>(breadth)].way() : ReadAhead::nothing;
}

bool ExpertStore::begin_step() {
  step_began_ = Clock::now();
  uses_before_ = stats_.uses;
  began_as_ = breadth_;
  return way(breadth_) == ReadAhead::router;
}

void ExpertStore::end_step() {
  for (Slot& slot : slots_) slot.awaited = false;
  if (stats_.uses == uses_before_ || breadth_ != began_as_) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - step_began_).count();
  gauges_[static_cast<int>(breadth_)].add(seconds / static_cast<double>(stats_.uses - uses_before_));
}

void ExpertStore::note(const Completion& completion) {
  for (Slot& slot : slots_) slot.kept = false;
  for (const ExpertUse& use : completion.used) note_use(use);
  wanted_.clear();
  may_resume_ = false;
  if (!completion.stopped) return end_step();
  // Behind a choice the step computes with what is there; later it has stopped for nothing but what is missing.
  const bool chose = !completion.used.empty() &&
                     (completion.missing.empty() || completion.used.back().op == completion.missing.front().op);
  CHECK(chose || !completion.missing.empty());
  const uint32_t layer = places_.layer_of(chose ? completion.used.back().op : completion.missing.front().op);
  may_resume_ = chose;
  if (chose) {
    stats_.misses += completion.missing.size();
    for (const uint32_t expert : completion.used.back().experts) {
      const int32_t slot = slot_of(layer, expert);
      if (slot >= 0) slots_[static_cast<size_t>(slot)].kept = true;
    }
    foresee(completion);
  }
  wanted_.reserve(completion.missing.size());
  for (const ExpertId& missing : completion.missing) wanted_.push_back({layer, missing.expert});
  begin_wanted();
}

void ExpertStore::note_use(const ExpertUse& use) {
  const uint32_t layer = places_.layer_of(use.op);
  replacement_->use(layer, use.experts);
  stats_.uses += use.experts.size();
  for (Slot& slot : slots_) slot.awaited &= slot.layer != layer;
  std::erase_if(ahead_, [&](const Want& want) { return want.layer == layer; });
  for (const uint32_t expert : use.experts) {
    ++uses_[size_t{layer} * places_.experts() + expert];
    const int32_t slot = slot_of(layer, expert);
    if (slot >= 0 && std::exchange(slots_[static_cast<size_t>(slot)].ahead, false)) ++stats_.ahead_used;
  }
  breadth_ = 2 * use.experts.size() > places_.experts(layer) ? Breadth::most : Breadth::few;
  last_use_[static_cast<int>(breadth_)][layer] = use.experts;
}

// What the layer behind the one that chose will want, and has not.
void ExpertStore::foresee(const Completion& completion) {
  ahead_.clear();
  const auto breadth = static_cast<int>(breadth_);
  if (completion.guessed) return await(places_.layer_of(completion.guessed->op), completion.guessed->experts);
  if (way(breadth_) != ReadAhead::last_use) return;
  const uint32_t next = (places_.layer_of(completion.used.back().op) + 1) % places_.layers();
  ahead_.reserve(last_use_[breadth][next].size());
  for (const uint32_t expert : last_use_[breadth][next])
    if (slot_of(next, expert) < 0) ahead_.push_back({next, expert});
  std::ranges::sort(ahead_, {}, [&](const Want& want) { return replacement_->worth(want.layer, want.expert); });
}

// Those of a coming layer that are there stay until it has chosen; the others are read ahead.
void ExpertStore::await(uint32_t layer, std::span<const uint32_t> experts) {
  ahead_.reserve(experts.size());
  for (const uint32_t expert : experts) {
    const int32_t slot = slot_of(layer, expert);
    if (slot >= 0)
      slots_[static_cast<size_t>(slot)].awaited = true;
    else
      ahead_.push_back({.layer = layer, .expert = expert, .awaited = true});
  }
}

double ExpertStore::worth(const Slot& slot) const {
  return slot.awaited ? kAwaitedWorth : replacement_->worth(slot.layer, slot.expert);
}

void ExpertStore::forget_step() {
  wanted_.clear();
  ahead_.clear();
  may_resume_ = false;
  for (Slot& slot : slots_) {
    slot.kept = slot.awaited = false;
    slot.forgotten = slot.state == State::reading;
  }
}

void ExpertStore::begin_wanted() {
  for (const Want& want : wanted_) {
    if (slot_of(want.layer, want.expert) >= 0) continue;
    if (!may_read()) break;
    const std::optional<uint32_t> slot = take_room(std::numeric_limits<double>::infinity());
    if (!slot) break;
    begin_expert(*slot, want.layer, want.expert);
  }
  begin_reads();
  begin_ahead();
}

// Behind what a step wants. As much as there is room for: where a step wants most experts of a layer, what is read
// while others compute is what it would wait for next.
void ExpertStore::begin_ahead() {
  while (!ahead_.empty() && may_read() && to_begin_.empty() && under_way_ < reads_->depth() * 3 / 4) {
    const Want want = ahead_.back();
    if (slot_of(want.layer, want.expert) < 0) {
      const double worth = want.awaited ? kAwaitedWorth : replacement_->worth(want.layer, want.expert);
      const std::optional<uint32_t> slot = take_room(worth);
      if (!slot) return;
      begin_early(*slot, want);
    }
    ahead_.pop_back();
  }
  begin_warm();
}

// Never so much that what a step wants would have to queue for long.
void ExpertStore::begin_warm() {
  const uint32_t most = std::min(reads_->depth() / 2, kMostWarming);
  while (!warm_.empty() && !empty_.empty() && may_read() && to_begin_.empty() && under_way_ < most) {
    const Want want = warm_.back();
    warm_.pop_back();
    if (slot_of(want.layer, want.expert) >= 0) continue;
    const uint32_t slot = empty_.back();
    empty_.pop_back();
    ++stats_.warmed;
    begin_early(slot, want);
  }
}

// Before a step wants it.
void ExpertStore::begin_early(uint32_t slot, const Want& want) {
  begin_expert(slot, want.layer, want.expert);
  slots_[slot].kept = false;
  slots_[slot].ahead = slots_[slot].forgotten = true;
  slots_[slot].awaited = want.awaited;
  ++stats_.ahead;
  begin_reads();
}

std::vector<HotExpert> ExpertStore::hottest() const {
  std::vector<HotExpert> hot;
  hot.reserve(slots_.size());
  for (const Slot& slot : slots_)
    if (slot.state == State::there)
      hot.push_back({slot.layer, slot.expert, uses_[size_t{slot.layer} * places_.experts() + slot.expert]});
  std::ranges::sort(hot, [](const HotExpert& a, const HotExpert& b) {
    return std::tuple(b.uses, a.layer, a.expert) < std::tuple(a.uses, b.layer, b.expert);
  });
  return hot;
}

void ExpertStore::warm_up(std::span<const HotExpert> hot) {
  warm_.clear();
  for (const HotExpert& one : hot) {
    if (one.layer >= places_.layers() || one.expert >= places_.experts(one.layer)) continue;
    warm_.push_back({one.layer, one.expert});
    uses_[size_t{one.layer} * places_.experts() + one.expert] = one.uses / 2;
  }
  std::ranges::reverse(warm_);
  begin_ahead();
}

// An empty slot, or that of the expert which is worth least, if it is worth less than what comes.
std::optional<uint32_t> ExpertStore::take_room(double worth_of_new) {
  if (!empty_.empty()) {
    const uint32_t slot = empty_.back();
    empty_.pop_back();
    return slot;
  }
  std::optional<uint32_t> least;
  double least_worth = worth_of_new;
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    const Slot& slot = slots_[index];
    if (slot.state != State::there || slot.kept) continue;
    const double its_worth = worth(slot);
    if (its_worth >= least_worth) continue;
    least = index;
    least_worth = its_worth;
  }
  if (!least) return std::nullopt;
  Slot& slot = slots_[*least];
  memory_->release(*least);
  slot_of(slot.layer, slot.expert) = -1;
  slot.state = State::empty;
  if (slot.ahead) ++stats_.ahead_wasted;
  return least;
}

void ExpertStore::begin_expert(uint32_t index, uint32_t layer, uint32_t expert) {
  Slot& slot = slots_[index];
  slot = {.state = State::reading, .layer = layer, .expert = expert, .kept = true};
  slot.place = places_.place(layer, expert);
  slot.reads_left = slot.place.reads.size();
  if (room_) slot.run = room_->take_run();
  slot_of(layer, expert) = static_cast<int32_t>(index);
  for (const ExpertRead& read : slot.place.reads) {
    if (free_readings_.empty()) {
      free_readings_.push_back(static_cast<uint32_t>(readings_.size()));
      readings_.emplace_back();
    }
    const uint32_t id = free_readings_.back();
    free_readings_.pop_back();
    readings_[id] = {.slot = index, .read = read};
    to_begin_.push_back(id);
  }
}

// Where a slot's expert is read to.
std::span<std::byte> ExpertStore::read_memory(uint32_t slot) {
  return room_ ? room_->read(slots_[slot].run) : memory_->slot_memory(slot);
}

void ExpertStore::begin_reads() {
  for (; next_to_begin_ < to_begin_.size() && under_way_ < reads_->depth(); ++next_to_begin_)
    begin_rest(to_begin_[next_to_begin_]);
  if (next_to_begin_ < to_begin_.size()) return;
  to_begin_.clear();
  next_to_begin_ = 0;
}

// What is left of a read, from the block on that was not read whole.
void ExpertStore::begin_rest(uint32_t id) {
  const Reading& reading = readings_[id];
  const uint64_t from = reading.done / kReadAlignment * kReadAlignment;
  const std::span<std::byte> memory = read_memory(reading.slot);
  reads_->begin({.id = id,
                 .file = reading.read.from.file,
                 .offset = reading.read.from.offset + from,
                 .into = memory.subspan(static_cast<size_t>(reading.read.at + from),
                                        static_cast<size_t>(reading.read.bytes - from))});
  ++under_way_;
  ++stats_.reads;
}

void ExpertStore::end(const ReadEnd& ended) {
  --under_way_;
  const auto id = static_cast<uint32_t>(ended.id);
  Reading& reading = readings_[id];
  const std::string& path = places_.paths()[reading.read.from.file];
  const uint64_t from = reading.done / kReadAlignment * kReadAlignment;
  if (ended.bytes == -EINTR || ended.bytes == -EAGAIN) return begin_rest(id);
  if (ended.bytes < 0) {
    slots_[reading.slot].failure = system_error(path, "read", static_cast<int>(-ended.bytes));
    return end_read(id);
  }
  stats_.read_bytes += static_cast<uint64_t>(ended.bytes);
  const uint64_t before = std::exchange(reading.done, from + static_cast<uint64_t>(ended.bytes));
  if (reading.done >= reading.read.needed) return end_read(id);
  if (reading.done > before) return begin_rest(id);
  const uint64_t at = reading.read.from.offset;
  slots_[reading.slot].failure = error(ErrorKind::corrupt, path, ": ends at byte ", at + reading.done, ": want ",
                                       at + reading.read.needed, " bytes");
  end_read(id);
}

void ExpertStore::end_read(uint32_t id) {
  const uint32_t index = readings_[id].slot;
  free_readings_.push_back(id);
  if (--slots_[index].reads_left == 0) settle(index);
}

// All reads of the slot have ended.
void ExpertStore::settle(uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.failure) {
    slot_of(slot.layer, slot.expert) = -1;
    if (room_) room_->give_back(slot.run);
    return;
  }
  if (room_) return begin_packing(index);
  fill(index, pieces_of(slot.place, read_memory(index)));
}

// Gate, up and down apart, so that one expert that a step waits for is packed by several threads.
void ExpertStore::begin_packing(uint32_t index) {
  Slot& slot = slots_[index];
  slot.parts_left = kExpertParts;
  const ExpertId id{.op = places_.op(slot.layer), .expert = slot.expert};
  for (uint32_t part = 0; part < kExpertParts; ++part)
    packing_->begin(index, [memory = memory_, id, part, pieces = pieces_of(slot.place, room_->read(slot.run)),
                            into = room_->packed(slot.run)] { memory->pack(id, part, pieces, into); });
}

void ExpertStore::fill(uint32_t index, std::span<const std::byte* const> pieces) {
  Slot& slot = slots_[index];
  slot.state = State::there;
  memory_->fill(index, {.op = places_.op(slot.layer), .expert = slot.expert}, pieces);
  if (room_) room_->give_back(slot.run);
  const auto is_it = [&](const Want& want) { return want.layer == slot.layer && want.expert == slot.expert; };
  slot.kept = std::erase_if(wanted_, is_it) > 0;
  may_resume_ |= slot.kept;
}

// Slots that could not be read are empty again; an error if the step that they were read for wants them.
Status ExpertStore::check_wanted() {
  Status status;
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    Slot& slot = slots_[index];
    if (!slot.failure || slot.reads_left > 0) continue;
    const auto is_it = [&](const Want& want) { return want.layer == slot.layer && want.expert == slot.expert; };
    if (!slot.forgotten && std::ranges::any_of(wanted_, is_it) && status) status = *slot.failure;
    slot = {};
    empty_.push_back(index);
  }
  return status;
}

// Parts are packed within a millisecond or so; reads may take longer. In a page both have ended when they begin.
void ExpertStore::take_ended(bool wait) {
  ended_.clear();
  packed_.clear();
  reads_->take_ended(ended_, wait && !(packing_ && packing_->busy()));
  for (const ReadEnd& one : ended_) end(one);
  if (packing_) packing_->take_ended(packed_, wait && ended_.empty());
}

Result<bool> ExpertStore::advance(bool wait) {
  const bool waits = wait && !may_resume_ && !wanted_.empty();
  const Clock::time_point before = Clock::now();
  take_ended(waits);
  if (waits) stats_.waited_seconds += std::chrono::duration<double>(Clock::now() - before).count();
  for (const uint64_t slot : packed_) {
    const auto index = static_cast<uint32_t>(slot);
    if (--slots_[index].parts_left > 0) continue;
    const std::byte* const packed = room_->packed(slots_[index].run).data();
    fill(index, {&packed, 1});
  }
  if (!ended_.empty() || !packed_.empty()) {
    const Status readable = check_wanted();
    if (!readable) {
      forget_step();
      return readable.error();
    }
    begin_wanted();
  }
  return may_resume_;
}

Result<std::unique_ptr<ExpertStore>> open_expert_store(ExpertPlaces places, uint32_t slots, Runner& runner,
                                                       Budget& budget, const ExpertOptions& options) {
  ExpertMemory* const memory = runner.expert_memory();
  if (memory == nullptr)
    return error(ErrorKind::unsupported, "experts: the device holds none in slots: want all in memory");
  TRY(auto reads, options.open_reads(places.paths()));
  auto replacement = make_replacement(options.replacement, {places.layers(), places.experts()});
  std::optional<ReadRoom> room;
  if (memory->slot_memory(0).empty())
    TRY_ASSIGN(room, ReadRoom::take(places.slot_bytes(), memory->packed_bytes(), slots, budget));
  auto store = std::make_unique<ExpertStore>(std::move(places), slots, *memory, std::move(room), std::move(reads),
                                             std::move(replacement));
  store->warm_up(options.warm);
  return store;
}

}  // namespace sluice
