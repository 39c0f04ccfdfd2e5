// Plays an engine to its end in a test; an engine that never gets there fails the test instead of hanging it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>

#include "engine/engine.h"

namespace sluice {

// Some twenty times what the longest test takes, a few seconds of the fake device.
inline constexpr uint32_t kMostSteps = 100'000;
// Of steps that wait for a device or a disk: a GPU's driver may compile for a minute on a slow processor.
inline constexpr std::chrono::minutes kLongestWait{5};

enum class Waiting : uint8_t { no, yes };

// Steps until no request is left. Waiting::yes: rests while a step is under way elsewhere, as commands do.
inline void run_until_idle(Engine& engine, Waiting waiting = Waiting::no) {
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  for (uint32_t steps = 0; steps < kMostSteps;) {
    const StepState state = engine.step();
    if (state == StepState::idle) return;
    if (waiting == Waiting::no || state == StepState::progressed) {
      ++steps;
    } else {
      if (std::chrono::steady_clock::now() > end) break;
      engine.wait();
    }
  }
  FAIL() << "the engine is not idle after " << kMostSteps << " steps, or " << kLongestWait.count() << " minutes";
}

}  // namespace sluice
