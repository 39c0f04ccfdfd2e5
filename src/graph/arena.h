// The layout of a device's one arena of activations. Values that live at different times share memory.
//
// A value lives from the op that writes it to the last op that reads it or a view of it. Outputs live to the end, and
// so do named values in a traced plan. The ops of a block count as one moment, and so do the ops of each range that a
// device names; the device may fuse them or run them in any order. An op's result never overlaps one of its operands. A
// view has the place of its storage. Program inputs lie in the step buffer, not here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"
#include "graph/step.h"

namespace sluice {

// Ops of a program.
struct OpRange {
  uint32_t first_op = 0, end_op = 0;
};

struct Lifetime {
  ValueId value = kNone;  // a value with storage of its own
  uint32_t first = 0;     // moments are op indices; the ops of a block or range all count as its first
  uint32_t last = 0;      // inclusive; kNone: the end of the step
};

// The lifetime of every value that an op writes, in order of writing.
std::vector<Lifetime> lifetimes(const Program& program, bool traced, std::span<const OpRange> together = {});

// Bytes of a value with the most rows.
uint64_t value_bytes(const Program& program, const StepMaxima& maxima, ValueId id);

struct Arena {
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  static constexpr uint64_t kAlignment = 64;
  std::vector<uint64_t> offsets;  // in bytes, by value; kNowhere: an input of the program, or a view of one
  uint64_t bytes = 0;
};

// Greedy: the largest value first, each in the smallest gap that holds it.
Arena pack_arena(const Program& program, const StepMaxima& maxima, bool traced, std::span<const OpRange> together = {});

}  // namespace sluice
