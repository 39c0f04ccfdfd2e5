// Runs of neighbouring ops that the GPU computes as one dispatch. They are found once a program, so that both token
// classes and the arena agree about them: within a run no value lies where another one does.
//
//   rows    norms over whole rows and ops element by element, all of the same columns: a workgroup a row, whose threads
//           keep their elements to themselves
//   heads   slices of whole heads, norms of heads, rope, append, all of one head width: a workgroup a head; those of
//           queries alone are made where they are read, ops [first_op, rows_end), of decode steps' attention
//   linears products with the same rows, side by side; of decode steps
//   gated   a product, or two, and a gated activation of them; of decode steps
//   short_conv  a convolution, what cuts its channels into heads and norms some, and the delta rule's gates
//
// Products may begin with the rows that they multiply, ops [first_op, rows_end): each workgroup makes them.
//
// A run's meaning is its ops, one after another. Values that nobody else reads are not written.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/arena.h"
#include "graph/program.h"

namespace sluice::webgpu {

enum class RunKind : uint8_t { rows, heads, linears, gated, short_conv };

struct Run {
  RunKind kind{};
  uint32_t first_op = 0, end_op = 0;
  uint32_t rows_end = first_op;  // of linears, gated; of heads that an attention makes
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

// The value of ops [first, end), a run of rows, that lies where `value` does; kNone: there is none.
ValueId row_made(const Program& program, uint32_t first, uint32_t end, ValueId value);

// Whether a workgroup's threads can keep a row of the value in registers.
bool is_row(const Program& program, ValueId value);

// What becomes of some heads of one value: they are normed, turned and appended, each of it or not.
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
// The longest run of heads that begins with that op; none: of less than two ops.
std::optional<HeadRun> head_run(const Program& program, const Readers& readers, uint32_t first_op);

// A gated run's parts: a product's gate, and what it is multiplied with.
struct GatedRun {
  const Linear* gate = nullptr;
  const Linear* up = nullptr;    // or
  const Slice* slice = nullptr;  // or neither: the activation's own `up`
  const GatedActivation* activation = nullptr;
  uint32_t end_op = 0;
};
std::optional<GatedRun> gated_run(const Program& program, const Readers& readers, uint32_t first_op);

inline constexpr size_t kMostConvParts = 4;
// A short convolution and what its channels, cut into heads, become: some are normed, all are written. With the gates
// of the delta rule behind it, where they are among the ops.
struct ConvPart {
  const L2Norm* norm = nullptr;
  ValueId result = kNone;
};
struct ConvRun {
  const ShortConv* conv = nullptr;
  std::vector<ConvPart> parts{};  // of consecutive channels, all of them
  uint32_t width = 0;             // of a normed head; all parts have whole ones
  const DeltaGates* gates = nullptr;
  uint32_t end_op = 0;
};
// None: of less than two ops, or of no norm.
std::optional<ConvRun> conv_run(const Program& program, const Readers& readers, uint32_t first_op);

// Ascending, apart from each other.
std::vector<Run> find_runs(const Program& program);
// Their ops as the arena wants them.
std::vector<OpRange> op_ranges(std::span<const Run> runs);

}  // namespace sluice::webgpu
