// Plays a step in stretches around experts that are read, for devices that submit work to a queue (a GPU).
//
//   play the ops up to a choice of experts, submit them, and read the choice back
//   play the ops that do not need these experts (graph/late_experts.h), and submit them, while files are read
//   play the chosen experts that have a slot, and submit them; again, until all have been played
//   go on to the next choice
//
// The step stops (Completion::stopped) where a chosen expert has no slot, and resume() goes on. A device only plays and
// submits (StretchPlayer). All reads of a slot are in the queue before the step stops, so slots may be refilled at
// once. Guesses of the program (graph/expert_guesses.h) are not played. The CPU has no queue; it shares SlotTable and
// route_of().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "graph/program.h"

namespace sluice {

// The op that chooses these experts; kNone: the choice is an input of the program.
uint32_t route_of(const Program& program, const Experts& experts);

// Which expert each slot holds.
class SlotTable {
 public:
  explicit SlotTable(uint32_t slots) : held_(slots) {}
  uint32_t size() const { return static_cast<uint32_t>(held_.size()); }
  void fill(uint32_t slot, ExpertId expert);       // the slot holds none, and no other slot holds the expert
  std::optional<ExpertId> release(uint32_t slot);  // returns the expert that the slot held
  std::optional<uint32_t> slot_of(ExpertId expert) const;

 private:
  std::vector<std::optional<ExpertId>> held_;
  std::map<ExpertId, uint32_t> slots_;
};

// A device's part of playing a step. "Play" adds work to the next submission; submissions keep their order.
class StretchPlayer {
 public:
  virtual ~StretchPlayer() = default;
  // Plays the ops before `end` that were not played yet. False: they compute nothing.
  virtual bool play_to(uint32_t end) = 0;
  // Plays the op `experts` for the experts with a slot; `slots` is by expert, kNone for the others. Called once or more
  // for an op. play_to() then plays the rest of the op, which sums the results.
  virtual void play_present(uint32_t op, std::span<const uint32_t> slots) = 0;
  // Submits the work, then a copy of the choice to `into`. Once it is there, the device calls
  // ExpertStretches::chosen().
  virtual void submit_choice(ValueId choice, std::span<uint32_t> into) = 0;
  virtual void submit_stretch() = 0;  // reads nothing back
  // Submits the step's end. Its Completion has these uses.
  virtual void submit_end(std::vector<ExpertUse> used) = 0;
};

class ExpertStretches {
 public:
  // `slots`: the plan's number of slots; with 0 a step is one stretch. Program and player outlive it.
  ExpertStretches(const Program& program, uint32_t slots, StretchPlayer& player);

  SlotTable& slots() { return slots_; }

  // Plays the step up to its first choice, or to its end. A step that has stopped is forgotten.
  void start(Ticket ticket, const StepBuffer& step);
  // chosen(): submit_choice() has brought the choice. resume(): continues a step that has stopped. Both return the
  // completion of a step that stops; nothing: the step goes on.
  std::optional<Completion> chosen();
  std::optional<Completion> resume(Ticket stopped);
  // The choice could not be read: the step has failed.
  void drop() { flight_.reset(); }

 private:
  // `experts` whose weights lie in slots, in the order of the program.
  struct Streamed {
    uint32_t op = 0, route = kNone;
  };
  // A step that is not yet submitted to its end.
  struct Flight {
    Ticket ticket = 0;
    const StepBuffer* step = nullptr;
    size_t next = 0;                 // index in streamed_ of the op that waits for its choice or for experts
    std::vector<uint32_t> wanted{};  // chosen experts that were not played yet; ascending
    std::vector<ExpertUse> used{};   // since the step's last completion
  };

  void play_to_choice();
  std::optional<Completion> play_present();
  Completion stop();
  const Experts& experts(uint32_t op) const { return std::get<Experts>(program_.ops[op]); }

  const Program& program_;
  StretchPlayer& player_;
  SlotTable slots_;
  std::vector<Streamed> streamed_;
  std::optional<Flight> flight_;
  std::vector<uint32_t> choice_;  // must not move while it is read back
};

}  // namespace sluice
