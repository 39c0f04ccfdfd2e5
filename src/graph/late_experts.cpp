#include "graph/late_experts.h"

#include <algorithm>

#include "graph/operands.h"

namespace sluice {
namespace {

bool reads(const Program& program, const Op& op, ValueId value) {
  bool found = false;
  for_each_input(op, [&](ValueId id) { found |= program.values[id].storage == program.values[value].storage; });
  return found;
}

// The first op that reads a result of `op`.
uint32_t first_reader(const Program& program, uint32_t op) {
  const ValueId out = std::get<Experts>(program.ops[op]).out;
  uint32_t reader = op + 1;
  while (reader < program.ops.size() && !reads(program, program.ops[reader], out)) ++reader;
  return reader;
}

// Moves op `from` to just before op `to`. A block that this parts is no block any more.
void move_op(Program& program, uint32_t from, uint32_t to) {
  std::rotate(program.ops.begin() + from, program.ops.begin() + from + 1, program.ops.begin() + to);
  std::rotate(program.layers.begin() + from, program.layers.begin() + from + 1, program.layers.begin() + to);
  std::erase_if(program.blocks, [&](const Block& block) {
    const bool holds = block.first_op <= from && from < block.end_op;
    return holds || (block.first_op < to && to < block.end_op);
  });
  for (Block& block : program.blocks) {
    if (block.first_op <= from || block.first_op >= to) continue;
    --block.first_op;
    --block.end_op;
  }
}

}  // namespace

Program with_late_experts(Program program) {
  for (uint32_t op = static_cast<uint32_t>(program.ops.size()); op-- > 0;) {
    if (!std::holds_alternative<Experts>(program.ops[op])) continue;
    const uint32_t reader = first_reader(program, op);
    if (reader > op + 1) move_op(program, op, reader);
  }
  return program;
}

}  // namespace sluice
