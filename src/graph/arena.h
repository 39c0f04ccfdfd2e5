// Where values lie in a device's one arena of activations: values alive at different times share memory.
//
// A value lives from the op that writes it to the last op that reads it or a view of it; outputs, and in a traced plan
// named values, live to the end. The ops of a block count as one moment, and so do those of each range that a device
// asks for, so that it may fuse them or run them in any order; an op's result never lies where one of its operands
// does. Views have the place of their storage. Program inputs lie in the step buffer and have no place here.
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
  ValueId value = kNone;  // its own storage
  uint32_t first = 0;     // moments: op indices, with the ops of a block or range all at its first
  uint32_t last = 0;      // inclusive; kNone: the end of the step
};

// Of every value that an op writes, in order of writing.
std::vector<Lifetime> lifetimes(const Program& program, bool traced, std::span<const OpRange> together = {});

// Bytes of a value at its largest.
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
