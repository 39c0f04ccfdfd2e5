// Typed values of a program, and the identifiers by which ops name their operands.
//
// A value is a row-major table [extent, heads, width]. Widths are numbers; a row extent is a symbol times a fixed
// ratio, whose maximum is given to a device's plan and whose count stands in each step.
#pragma once

#include <cstdint>

namespace sluice {

// What a row stands for. `rows`: the tokens of the step. `wanted`: those of them whose logits are asked for.
enum class Symbol : uint8_t { rows, wanted };
inline constexpr int kSymbols = 2;

struct Extent {
  Symbol symbol = Symbol::rows;
  uint32_t ratio = 1;
  bool operator==(const Extent&) const = default;
};

enum class Element : uint8_t { f32, i32 };

struct ValueType {
  Extent extent{};
  uint32_t heads = 1;
  uint32_t width = 0;  // elements of a head
  Element element = Element::f32;

  uint64_t columns() const { return uint64_t{heads} * width; }  // elements of a row
  bool operator==(const ValueType&) const = default;
};

using ValueId = uint32_t;   // index into Program::values
using WeightId = uint32_t;  // index into Program::weights
using RopeId = uint32_t;    // index into Program::ropes
inline constexpr uint32_t kNone = ~uint32_t{0};

// One version of a layer's state: ops that write state return the next version, ops that read it name the one they
// read.
struct StateRef {
  uint32_t state = kNone;  // index into Program::states
  uint32_t version = 0;
  bool operator==(const StateRef&) const = default;
};

}  // namespace sluice
