// What an op touches and computes in a step, from shapes alone: for measuring how near a device comes to its limits.
//
// Bytes are those that nobody can do without, each once: weights in the format they are stored in, of a table or of
// experts only the rows and experts that are used; cached positions that are seen or written; operands and results in
// 32 bits. Flops are those of the formula in an op's header, an exponential counted as one.
#pragma once

#include <cstdint>
#include <vector>

#include "format/format.h"
#include "graph/program.h"
#include "graph/step.h"

namespace sluice {

struct OpCost {
  uint64_t weight_bytes = 0, state_bytes = 0, value_bytes = 0;
  uint64_t flops = 0;

  uint64_t bytes() const { return weight_bytes + state_bytes + value_bytes; }
  OpCost& operator+=(const OpCost& other);
};

// A step as far as costs go. Of each sequence the last row is wanted.
struct StepWork {
  struct Sequence {
    uint32_t first_position = 0, rows = 0;
  };
  std::vector<Sequence> sequences;
  SymbolCounts other{};  // rows that are no sequence's

  static StepWork of(const StepBuffer& step);
  uint64_t rows() const;
  uint64_t count(Symbol symbol) const;
};

struct CostFacts {
  const Program* program = nullptr;
  std::vector<Format> formats = {};        // of its weights, in its order
  std::vector<double> state_bytes = {};    // by state: of a position, or of a slot
  std::vector<double> expert_shares = {};  // how often a layer's experts are chosen, by rank; none: all alike
};

// What a step reads of a weight: rows that its tokens name, experts that they choose, or all of it.
enum class WeightUse : uint8_t { nothing, rows, experts, whole };
std::vector<WeightUse> weight_uses(const Program& program);  // in the order of its weights

OpCost op_cost(const CostFacts& facts, uint32_t op, const StepWork& work);
// How many of a layer's experts some of `rows` rows choose, on average.
double experts_read(const CostFacts& facts, uint32_t experts, uint32_t used, uint64_t rows);

}  // namespace sluice
