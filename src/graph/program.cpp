#include "graph/program.h"

namespace sluice {

const BlockDoc& block_doc(BlockKind kind) {
  static constexpr BlockDoc kDocs[kBlockKinds] = {
      {.name = "qkv", .ops = "linears of one input"},
      {.name = "gated_mlp", .ops = "linear gate, linear up, gated_activation, linear down"},
      {.name = "moe", .ops = "route, experts"},
  };
  return kDocs[static_cast<int>(kind)];
}

}  // namespace sluice
