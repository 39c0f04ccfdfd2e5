// Gives a runner with slots the experts that its steps lack, in an order drawn from a seed: now one of them, now as
// many as there is room for; and takes away whatever it may.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.h"

namespace sluice {

// Large enough for any expert of the program, each piece at any address.
ExpertSlots slots_for(const Program& program, const WeightSource& weights, uint32_t count);

class SlotFiller {
 public:
  // All outlive it.
  SlotFiller(const Program& program, const WeightSource& weights, Runner& runner, uint32_t slots, uint32_t seed);
  // The runner's step has stopped.
  void serve(const Completion& stopped);
  uint64_t filled() const { return filled_; }
  // Choices that were guessed before they were made, and those that were right in every expert.
  uint64_t guesses() const { return guesses_; }
  uint64_t right_guesses() const { return right_guesses_; }

 private:
  uint32_t draw(uint64_t below);
  std::optional<uint32_t> room();
  void fill(uint32_t slot, ExpertId expert);

  const Program& program_;
  const WeightSource& weights_;
  Runner& runner_;
  std::vector<std::optional<ExpertId>> held_;  // by slot
  std::vector<bool> kept_;                     // by slot: until the step has been resumed
  uint64_t slot_bytes_;
  uint32_t seed_;
  uint32_t draws_ = 0;
  uint64_t filled_ = 0;
  std::optional<ExpertUse> guessed_;
  uint64_t guesses_ = 0, right_guesses_ = 0;
};

}  // namespace sluice
