// The expert store: a fixed number of slots in the device's memory, and which experts lie in them. A step that lacks
// some has stopped; the store reads them, gives up those that are worth least (Replacement), and says when to resume.
//
//   empty -> reading -> there        a slot; one that is read into is never given to another expert. Where slots lie
//                                    in a device's own memory, what has been read is packed by threads of the store's
//   kept                             until the step has been resumed: what it has stopped for, and what it computes
//   with
//
// Behind what a step wants, what the next layer may want is read ahead, while that makes steps faster: what it wanted
// the last time, in the place of experts that are worth less, or what its router says of this layer's hidden state, in
// the place of any that do not wait for their own use. Prompts and answers are judged apart: see Breadth. Behind that
// again, experts that were used most the last time the model ran are read into slots that are still empty (warm_up).
// Where reading and computing do not overlap, as in a page, nothing is read ahead.
//
// Any slots do, down to one: a step takes what is there, then the next. What cannot be read - an error, a file that
// ends too early - is one sentence for the step that wants it; the next step tries again. Not thread safe.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

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

// That pack experts for a device whose slots lie in memory of its own.
uint32_t packing_threads();

class ExpertStore {
 public:
  // `memory` outlives it. `room`: to read into, where slots do not lie in the host's memory.
  ExpertStore(ExpertPlaces places, uint32_t slots, ExpertMemory& memory, std::optional<ReadRoom> room,
              std::unique_ptr<ReadQueue> reads, std::unique_ptr<Replacement> replacement);

  // A step begins; true: it is to guess experts (StartOptions).
  bool begin_step();
  // Of a step that has stopped, or is done.
  void note(const Completion& completion);
  // Takes in what has been read, and reads more; true: the stopped step is to be resumed. Where it needs what could not
  // be read, the error, and the step is forgotten. `wait`: where nothing has been read yet, some milliseconds.
  Result<bool> advance(bool wait);
  void resumed() { may_resume_ = false; }
  void forget_step();

  ExpertStats stats() const;

  // What lies in slots, the most used first.
  std::vector<HotExpert> hottest() const;
  // Begins to read these, the first of them first; what the model has not is left out. Their uses count half of what
  // new ones do.
  void warm_up(std::span<const HotExpert> hot);
  bool reading() const { return under_way_ > 0 || (packing_ && packing_->busy()); }

 private:
  enum class State : uint8_t { empty, reading, there };
  // Whether a step wants most experts of a layer, as prompts do, or a few, as answers do: what one wanted says nothing
  // of the other.
  enum class Breadth : uint8_t { few, most };
  struct Slot {
    State state = State::empty;
    uint32_t layer = 0, expert = 0;
    bool kept = false;
    bool ahead = false;      // read ahead, and not used yet
    bool awaited = false;    // likewise, and the op that may use it is yet to come in this step
    bool forgotten = false;  // was read for a step that is not waited for: an error is no answer for another one
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

}  // namespace sluice
