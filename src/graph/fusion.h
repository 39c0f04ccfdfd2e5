// Runs of neighbouring ops that a device may fuse, that is compute as one kernel. Finding them depends on the program
// alone; which kinds a device has kernels for, and how much such a kernel can hold, is its FusionLimits.
//
//   rows        norms over whole rows and ops element by element, all with the same number of columns. One row needs no
//               other row, so its elements can stay in registers.
//   heads       slices of whole heads, norms of heads, rope and append, all with the same head width. Where the only
//               reader is the attention behind the run, the run includes it: ops [first_op, rows_end) make its queries.
//   linears     products of the same rows, side by side
//   gated       a product, or two, and the gated activation of them
//   short_conv  a convolution, the slices that cut its channels into heads, their norms, and the gates of the delta
//   rule
//
// linears and gated may begin with the ops [first_op, rows_end) that make the rows they multiply.
//
// A run means the same as its ops, one after another. Values that nothing outside the run reads need not be written.
// Runs are the same for both token classes, because the arena must keep the values of a run apart (op_ranges). A device
// may still play a run's ops one by one.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/arena.h"
#include "graph/program.h"

namespace sluice {

enum class RunKind : uint8_t { rows, heads, linears, gated, short_conv };

// The most that a device's kernels compute as one; 0 or false: they have no such kind.
struct FusionLimits {
  uint64_t row_columns = 0;      // rows: columns of a row
  size_t head_chains = 0;        // heads: values that the heads come from
  bool attention = false;        // heads: whether attention can make its queries
  uint32_t linears = 0;          // linears: products
  bool gated = false;            // gated
  uint64_t outputs_of_rows = 0;  // linears, gated: outputs in all, where they begin with the ops that make their rows
  size_t conv_parts = 0;         // short_conv: slices of its channels
};

// Which ops read a value.
class Readers {
 public:
  explicit Readers(const Program& program);
  // Whether an op that is not of [first, end), or whoever started the step, reads the value or a view of it.
  bool outside(ValueId value, uint32_t first, uint32_t end) const;

 private:
  const Program& program_;
  std::vector<std::vector<uint32_t>> ops_;  // by storage; kNone: an output
};

// The operands of `heads`: what becomes of some heads of one value. Each step - norm, rope, append - may be missing.
struct HeadChain {
  ValueId source = kNone;
  uint32_t first_head = 0, stride = 1;  // of the source's heads
  uint32_t heads = 0;
  const RmsNorm* norm = nullptr;
  const Rope* rope = nullptr;
  ValueId result = kNone;
  bool is_key = false, is_value = false;  // of `append`
};
struct HeadRun {
  std::vector<HeadChain> chains{};
  const Append* append = nullptr;
  uint32_t end_op = 0;
};

// The operands of `gated`: the product that is the gate, and what the gate is multiplied with.
struct GatedRun {
  const Linear* gate = nullptr;
  const Linear* up = nullptr;    // or
  const Slice* slice = nullptr;  // or neither: the activation's own `up`
  const GatedActivation* activation = nullptr;
  uint32_t end_op = 0;
};

// The operands of `short_conv`. The parts are consecutive channels, all of them; each is written, some are normed.
struct ConvPart {
  const L2Norm* norm = nullptr;
  ValueId result = kNone;
};
struct ConvRun {
  const ShortConv* conv = nullptr;
  std::vector<ConvPart> parts{};
  uint32_t width = 0;  // of a normed head; every part is a number of whole heads
  const DeltaGates* gates = nullptr;
  uint32_t end_op = 0;
};

// Points into its program. `rows` and `linears` have their ops alone as operands.
struct FusedRun {
  RunKind kind{};
  uint32_t first_op = 0, end_op = 0;
  uint32_t rows_end = first_op;    // see above; first_op: the run begins with no ops of another kind
  std::optional<HeadRun> heads{};  // of RunKind::heads, less the attention
  std::optional<GatedRun> gated{};
  std::optional<ConvRun> conv{};
};

// Ascending and disjoint, each of at least two ops; none of them a guess of the program.
std::vector<FusedRun> find_runs(const Program& program, const FusionLimits& limits);
// Their ops as the arena wants them.
std::vector<OpRange> op_ranges(std::span<const FusedRun> runs);

// The value made by ops [first, end), which are a run of rows, that lies where `value` does; kNone: there is none.
ValueId row_made(const Program& program, uint32_t first, uint32_t end, ValueId value);

// Whether a kernel with these limits holds a row of the value.
bool is_row(const Program& program, const FusionLimits& limits, ValueId value);

}  // namespace sluice
