#include "graph/program.h"

#include <algorithm>

namespace sluice {

const BlockDoc& block_doc(BlockKind kind) {
  static constexpr BlockDoc kDocs[kBlockKinds] = {
      {.name = "qkv", .ops = "linears of one input"},
      {.name = "gated_mlp", .ops = "linear gate, linear up, gated_activation, linear down"},
      {.name = "moe", .ops = "route, experts"},
  };
  return kDocs[static_cast<int>(kind)];
}

bool has_symbol(const Program& program, Symbol symbol) {
  return std::find(program.symbols.begin(), program.symbols.end(), symbol) != program.symbols.end();
}

Extent rope_extent(const Program& program, RopeId rope) {
  const ValueId coordinates = program.ropes[rope].coordinates;
  return coordinates == kNone ? Extent{} : program.values[coordinates].type.extent;
}

}  // namespace sluice
