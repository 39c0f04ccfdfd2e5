// Runs of neighbouring ops that a device may fuse, that is, compute as one kernel. Finding them depends on the program
// and on FusionLimits, which say what the device's kernels can do.
//
// A run means the same as its ops in order. Values that nothing outside the run reads need not be written. Runs are the
// same for both token classes, because the arena must keep the values of a run apart (op_ranges). A device may still
// play a run's ops one by one.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/arena.h"
#include "graph/program.h"

namespace sluice {

//   rows        norms over whole rows and ops element by element, all with the same number of columns. One row needs no
//               other row, so its elements can stay in registers.
//   heads       slices of whole heads, norms of heads, rope and append, all with the same head width. If only the
//               attention behind the run reads the results, the run includes it: ops [first_op, rows_end) make its
//               queries.
//   linears     products of the same rows
//   gated       one or two products and their gated activation
//   short_conv  a convolution, the slices that cut its channels into heads, their norms, and the gates of the delta
//   rule
//   finished    one product, transposed or not, and behind it the sum of its results and another value, or their
//   scaling
//   joined      the products of a weight and of an adapter's outer factor, both transposed or neither, and their sum.
//   Forwards, the product that makes the outer factor's rows lies between them. Backwards, the sum with an earlier
//   gradient may lie there.
//
// linears and gated may begin with the ops [first_op, rows_end) that make the rows they multiply.
enum class RunKind : uint8_t { rows, heads, linears, gated, short_conv, finished, joined };

// The most that a device's kernels fuse; 0 or false: they do not fuse this kind.
struct FusionLimits {
  uint64_t row_columns = 0;      // rows: columns of a row
  size_t head_chains = 0;        // heads: values that the heads come from
  bool attention = false;        // heads: whether attention can make its queries
  uint32_t linears = 0;          // linears: products
  bool gated = false;            // gated
  uint64_t outputs_of_rows = 0;  // linears, gated: outputs in all, if they begin with the ops that make their rows
  size_t conv_parts = 0;         // short_conv: slices of its channels
  bool finished = false;         // finished
  bool joined = false;           // joined
};

// Which ops read a value.
class Readers {
 public:
  explicit Readers(const Program& program);
  // Whether an op outside [first, end), or the caller of the step, reads the value or a view of it.
  bool outside(ValueId value, uint32_t first, uint32_t end) const;

 private:
  const Program& program_;
  std::vector<std::vector<uint32_t>> ops_;  // by storage; kNone: an output
};

// The operands of `heads`: a chain of norm, rope and append for some heads of one value. Each of the three may be
// missing.
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

// The operands of `gated`: the gate's product and the other factor: `up`, or `slice`, or, if both are null, the
// activation's own operand `up`.
struct GatedRun {
  const Linear* gate = nullptr;
  const Linear* up = nullptr;
  const Slice* slice = nullptr;
  const GatedActivation* activation = nullptr;
  uint32_t end_op = 0;
};

// The operands of `short_conv`. The parts are consecutive channels and together all of them. Each part is written; some
// are normed.
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

// The operands of `finished`: the value that keeps a product's results, multiplied by `factor` and added to `plus`.
struct Finishing {
  ValueId out = kNone;
  ValueId plus = kNone;  // kNone: there is none
  float factor = 1.0f;
};

// The operands of `joined`.
struct JoinedRun {
  uint32_t wide_op = 0, narrow_op = 0;  // the weight's product, the factor's
  Finishing finish{};                   // of their sum
  std::optional<Finishing> inner{};     // of the product behind wide_op, whose results the factor's product multiplies
};

// A run; points into its program. `rows` and `linears` have no operands beside their ops.
struct FusedRun {
  RunKind kind{};
  uint32_t first_op = 0, end_op = 0;
  uint32_t rows_end = first_op;    // see RunKind; first_op: there are no such ops
  std::optional<HeadRun> heads{};  // of RunKind::heads, without the attention
  std::optional<GatedRun> gated{};
  std::optional<ConvRun> conv{};
  std::optional<Finishing> finish{};
  std::optional<JoinedRun> joined{};
};

// The runs, ascending and disjoint, each of at least two ops. Ops of guesses are in no run.
std::vector<FusedRun> find_runs(const Program& program, const FusionLimits& limits);
// The ops of each run, for the arena.
std::vector<OpRange> op_ranges(std::span<const FusedRun> runs);

// The value that the run of rows [first, end) makes and that has the storage of `value`; kNone: there is none.
ValueId row_made(const Program& program, uint32_t first, uint32_t end, ValueId value);

// Whether a kernel with these limits can hold a row of the value.
bool is_row(const Program& program, const FusionLimits& limits, ValueId value);

}  // namespace sluice
