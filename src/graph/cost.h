// The bytes and flops of an op in a step, from shapes alone. They show how near a device comes to its limits.
//
// Bytes are the least that any device must read or write: weights in their stored format (of tables and experts only
// the rows and experts that are used), cached positions that are seen or written, and operands and results in 32 bits.
// Flops are those of the formula in the op's header; an exponential counts as one.
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

// The rows of a step. The last row of each sequence is wanted.
struct StepWork {
  struct Sequence {
    uint32_t first_position = 0, rows = 0;
  };
  std::vector<Sequence> sequences;
  SymbolCounts other{};  // rows of no sequence

  static StepWork of(const StepBuffer& step);
  uint64_t rows() const;
  uint64_t count(Symbol symbol) const;
};

struct CostFacts {
  const Program* program = nullptr;
  std::vector<Format> formats = {};        // of the program's weights, in its order
  std::vector<double> state_bytes = {};    // by state: of a position, or of a slot
  std::vector<double> expert_shares = {};  // how often a layer's experts are chosen, by rank; empty: equally often
};

// The part of a weight that a step reads: factors of its rows' adapters, rows that its tokens name, experts that its
// rows choose, or all of it.
enum class WeightUse : uint8_t { nothing, adapter, rows, experts, whole };
std::vector<WeightUse> weight_uses(const Program& program);  // in the order of the program's weights

OpCost op_cost(const CostFacts& facts, uint32_t op, const StepWork& work);
// The average number of a layer's experts that at least one of `rows` rows chooses.
double experts_read(const CostFacts& facts, uint32_t experts, uint32_t used, uint64_t rows);

}  // namespace sluice
