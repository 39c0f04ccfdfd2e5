// The expert store: a fixed number of slots in the device's memory, each empty, being read, or holding an expert. A
// step that lacks experts stops. The store reads them, evicts those worth least (Replacement), and says when to resume.
//
// A slot that is being read is never given to another expert. The experts of a stopped step stay until it has resumed.
// Otherwise reads may happen in any order, and one slot is enough. A failed read is one sentence for the step that
// needs it; the next step tries again. For slots in a device's own memory, threads of the store pack what was read.
//
// Prefetch comes after the reads that a step needs, while it makes steps faster: (a) the experts that the next layer
// used last, evicting those worth less, or (b) those that its router chooses on this layer's hidden state, evicting any
// that are not awaited. Prompts and answers are judged apart (Breadth). After that, experts used most in the last run
// go into empty slots (warm_up). In a page reading and computing do not overlap, so nothing is prefetched. Not thread
// safe.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/files/read_queue.h"
#include "base/result.h"
#include "base/task_queue.h"
#include "device/device.h"
#include "engine/experts/expert_places.h"
#include "engine/experts/read_ahead.h"
#include "engine/experts/read_room.h"
#include "engine/experts/replacement.h"
#include "engine/options.h"

namespace sluice {

// Threads that pack experts for a device with memory of its own.
uint32_t packing_threads();

class ExpertStore {
 public:
  // `memory` must outlive the store. `room`: memory to read into, if slots do not lie in the host's memory.
  ExpertStore(ExpertPlaces places, uint32_t slots, ExpertMemory& memory, std::optional<ReadRoom> room,
              std::unique_ptr<ReadQueue> reads, std::unique_ptr<Replacement> replacement);

  // A step begins. True: it shall guess experts (StartOptions).
  bool begin_step();
  // A step has stopped, or is done.
  void note(const Completion& completion);
  // Takes in finished reads and begins more. True: resume the stopped step. When a needed read failed, returns the
  // error and forgets the step. `wait`: if no read has finished, wait some milliseconds for one.
  Result<bool> advance(bool wait);
  void resumed() { may_resume_ = false; }
  void forget_step();

  ExpertStats stats() const;

  // The experts in slots, the most used first.
  std::vector<HotExpert> hottest() const;
  // Begins to read these experts in order. Experts that the model lacks are ignored. Their old uses count half as much
  // as new ones.
  void warm_up(std::span<const HotExpert> hot);
  bool reading() const { return under_way_ > 0 || (packing_ && packing_->busy()); }

 private:
  enum class State : uint8_t { empty, reading, there };
  // Whether a step uses most experts of a layer, as prompts do, or a few, as answers do. The one kind says nothing
  // about the other.
  enum class Breadth : uint8_t { few, most };
  struct Slot {
    State state = State::empty;
    uint32_t layer = 0, expert = 0;
    bool kept = false;
    bool ahead = false;      // prefetched, and not used yet
    bool awaited = false;    // likewise, and the op that may use it is still to come in this step
    bool forgotten = false;  // read for a step that is gone: an error is no answer for another step
    ExpertPlace place{};
    uint32_t run = 0;  // of ReadRoom, while it is read and packed
    size_t reads_left = 0;
    uint32_t parts_left = 0;  // to be packed
    std::optional<Error> failure{};
  };
  // Of one ExpertRead; its index is the read's id.
  struct Reading {
    uint32_t slot = 0;
    ExpertRead read{};
    uint64_t done = 0;  // bytes
  };
  struct Want {
    uint32_t layer = 0, expert = 0;
    bool awaited = false;
  };

  int32_t& slot_of(uint32_t layer, uint32_t expert) { return slot_of_[size_t{layer} * places_.experts() + expert]; }
  void end_step();
  void note_use(const ExpertUse& use);
  void foresee(const Completion& completion);
  void await(uint32_t layer, std::span<const uint32_t> experts);
  double worth(const Slot& slot) const;
  void begin_wanted();
  void begin_ahead();
  void begin_warm();
  void begin_early(uint32_t slot, const Want& want);
  ReadAhead way(Breadth breadth) const;
  bool may_read() const { return !room_ || !room_->full(); }
  std::span<std::byte> read_memory(uint32_t slot);
  std::optional<uint32_t> take_room(double worth_of_new);
  void begin_expert(uint32_t slot, uint32_t layer, uint32_t expert);
  void begin_reads();
  void begin_rest(uint32_t id);
  void end(const ReadEnd& ended);
  void end_read(uint32_t id);
  void settle(uint32_t slot);
  void begin_packing(uint32_t slot);
  void fill(uint32_t slot, std::span<const std::byte* const> pieces);
  void take_ended(bool wait);
  Status check_wanted();

  ExpertPlaces places_;
  ExpertMemory* memory_;
  std::optional<ReadRoom> room_;
  std::unique_ptr<Replacement> replacement_;
  std::vector<Slot> slots_;
  std::vector<int32_t> slot_of_;  // by layer and expert; -1: in none
  std::vector<uint32_t> empty_;   // slots
  std::vector<Reading> readings_;
  std::vector<uint32_t> free_readings_;
  std::vector<uint32_t> to_begin_;  // readings, first in first out from next_to_begin_
  size_t next_to_begin_ = 0;
  uint32_t under_way_ = 0;
  std::vector<Want> wanted_;                        // of the stopped step, not there yet
  std::vector<Want> ahead_;                         // to be read ahead, the likeliest last
  std::vector<Want> warm_;                          // to be read into empty slots, the hottest last
  std::vector<uint64_t> uses_;                      // by layer and expert
  std::vector<std::vector<uint32_t>> last_use_[2];  // by breadth, then layer
  ReadAheadGauge gauges_[2] = {ReadAheadGauge(8), ReadAheadGauge(1)};
  Breadth breadth_{};   // of the last use
  Breadth began_as_{};  // what this step was taken for when it began
  std::chrono::steady_clock::time_point step_began_{};
  uint64_t uses_before_ = 0;  // this step
  bool may_resume_ = false;
  std::vector<ReadEnd> ended_;    // kept for its memory
  std::vector<uint64_t> packed_;  // likewise: slots, once a part
  ExpertStats stats_;
  std::unique_ptr<TaskQueue> packing_;  // null: slots lie in the host's memory
  std::unique_ptr<ReadQueue> reads_;    // last: goes first, and waits for what is read into slots
};

// A store over the slots of `runner`, which must outlive it. Begins to read options.warm.
Result<std::unique_ptr<ExpertStore>> open_expert_store(ExpertPlaces places, uint32_t slots, Runner& runner,
                                                       Budget& budget, const ExpertOptions& options);

}  // namespace sluice
