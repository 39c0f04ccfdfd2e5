// Typed values of a program, and the identifiers by which ops name their operands.
//
// A value is a row-major table [extent, heads, width]. Widths are numbers; a row extent is a symbol times a fixed
// ratio, whose maximum is given to a device's plan and whose count stands in each step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace sluice {

// What a row stands for. A new symbol is an enumerator and its name; maxima, the step's counts and what a GPU is told
// of a step follow from the two lists.
enum class Symbol : uint8_t {
  rows,        // tokens of the step
  wanted,      // those tokens whose logits are asked for
  patches,     // of the step's pictures, as a tower takes them
  frames,      // of the step's sounds, likewise
  media_rows,  // rows that a tower gives the text program for pictures and sounds
  one,         // always one, in every step: a gradient of a matrix has as many rows as the matrix
};
inline constexpr std::array<const char*, 6> kSymbolNames = {"rows", "wanted", "patches", "frames", "media_rows", "one"};
inline constexpr size_t kSymbols = kSymbolNames.size();
static_assert(static_cast<size_t>(Symbol::one) + 1 == kSymbols);

constexpr const char* symbol_name(Symbol symbol) { return kSymbolNames[static_cast<size_t>(symbol)]; }

struct Extent {
  Symbol symbol = Symbol::rows;
  uint32_t ratio = 1;
  bool operator==(const Extent&) const = default;
};

// Whether rows are tokens of the step, each with a position in a sequence.
constexpr bool has_positions(const Extent& extent) {
  return extent.symbol == Symbol::rows || extent.symbol == Symbol::wanted;
}

// A count for each symbol; 0 where none is given.
class SymbolCounts {
 public:
  constexpr SymbolCounts() = default;
  constexpr SymbolCounts(std::initializer_list<std::pair<Symbol, uint32_t>> counts) {
    for (const auto& [symbol, count] : counts) (*this)[symbol] = count;
  }

  constexpr uint32_t& operator[](Symbol symbol) { return counts_[static_cast<size_t>(symbol)]; }
  constexpr uint32_t operator[](Symbol symbol) const { return counts_[static_cast<size_t>(symbol)]; }
  constexpr uint64_t rows_of(const Extent& extent) const {
    return extent.symbol == Symbol::one ? extent.ratio : uint64_t{(*this)[extent.symbol]} * extent.ratio;
  }
  constexpr const std::array<uint32_t, kSymbols>& all() const { return counts_; }
  bool operator==(const SymbolCounts&) const = default;

 private:
  std::array<uint32_t, kSymbols> counts_{};
};

// Of a step that has nothing but tokens.
constexpr SymbolCounts text_counts(uint32_t rows, uint32_t wanted) {
  return {{Symbol::rows, rows}, {Symbol::wanted, wanted}};
}

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
