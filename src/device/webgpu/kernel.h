// A kernel: the WGSL of one dispatch, and the constants, parameters and bindings that it names. pipeline_text() writes
// their declarations, so a number or a buffer is named once, in C++. Numbers are 32-bit words of `memory` (layout.h).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "device/webgpu/host.h"
#include "graph/value.h"

namespace sluice::webgpu {

// A named number: u32 or f32.
struct Number {
  std::string name{};
  std::variant<uint32_t, float> value{};

  uint32_t word() const;  // its bits
};

// The buffer or part of a buffer that is bound, named before there are buffers.
enum class SlotKind : uint8_t {
  memory,         // the step, values and scratch
  factors,        // small weights as f32, one behind another
  weight,         // `index`: a weight, of which `tile` is bound
  shared,         // `index`: a buffer that several weights share
  experts,        // `index`: a buffer of slots for experts
  state,          // `index`: a state's pages
  flags,          // a word for each op: the first row whose result is not finite
  trained,        // `index`: a buffer of tables of trained factors (trained_layout.h)
  trained_table,  // of their entries
  trained_sums,   // of the squares of gradients
  trained_step,   // the numbers of a FactorUpdate
};
struct Slot {
  SlotKind kind{};
  uint32_t index = 0;
  uint32_t tile = 0;
  auto operator<=>(const Slot&) const = default;
};

// The element of arrays that are read four words at once.
inline constexpr const char* kFours = "vec4u";

struct Binding {
  std::string name{};
  Slot slot{};
  Access access = Access::read;
  const char* element = "u32";  // of the bound array
};

// The workgroups of a dispatch: `times` workgroups for each `per` items of all rows of the kernel's extent together, or
// of all sequences of the step. Only rows from first_row on count, at most most_rows. With most_parts there are as many
// for each part of the step's longest history, of at most most_parts parts. A step whose count is not from least_count
// to most_count has no workgroups.
struct Grid {
  uint64_t items = 1;  // of a row
  uint32_t per = 1;    // items of a workgroup
  uint32_t lists = 0;  // lists into which the items may be split; the last workgroup of a list may have fewer items
  uint64_t times = 1;
  bool of_sequences = false;
  uint32_t first_row = 0, most_rows = ~uint32_t{0};
  uint32_t most_parts = 0;  // of a history; 0: the history does not matter
  uint32_t window = 0;      // positions of the history that are seen; 0: all
  uint64_t least_count = 0, most_count = ~uint64_t{0};
  // Whether a step of one row has the dispatch.
  bool is_of_one_row() const { return first_row == 0 && least_count <= 1; }
  // The workgroups for `count` rows or sequences, whose last position is at most `last_position`. `ahead`: the most
  // positions behind its own that a row sees.
  uint64_t workgroups(uint64_t count, uint32_t last_position, uint32_t ahead = 0) const;
};
// A grid in two dimensions, each at most `most`; x * y is at least `workgroups`.
struct FoldedGrid {
  uint32_t x = 0, y = 0;
};
FoldedGrid fold(uint64_t workgroups, uint32_t most);

inline constexpr uint32_t kThreads = 64;

constexpr uint64_t divide_up(uint64_t number, uint64_t by) { return (number + by - 1) / by; }

// How to write a kernel:
//   Kernel k{.name = "scale", .body = kScaleBody, .extent = type.extent};
//   k.constants = {{"COLUMNS", columns}};            // const COLUMNS: part of the text, a pipeline for each value
//   k.params = {{"x", at(op.x)}, {"factor", 0.5f}};  // p.x, p.factor: uniforms; the text is the same for all values
//   k.bindings = {memory()};                         // memory: array<u32>
//   k.snippets = {kMath};                            // functions that the body calls
//   k.grid = {.items = columns, .per = kThreads};
//   add(k);                                          // Emitter
//
// A body is plain WGSL with `fn main`. Prefer a constant, a parameter or a snippet to text that is put together. If
// names or statements differ between kernels, write ${name} in the text and fill() it (wgsl_template.h). Always
// declared:
//   THREADS                       of a workgroup
//   rows(), sequences()           of k.extent in this step, and of the step: the same for every thread
//   group_index(group, groups)    the workgroup's number in the folded grid; may be beyond the last one with work
//   load(at), store(at, f32), load4(at), word(at), four(at), put_four(at, vec4u)   words of memory; if memory is bound
//                                 as kFours, store4(at, vec4f) in place of store()
//   w_16(row, part) -> mat4x4f    of a weight bound as `w`: elements 16 part to 16 part + 15 (weight_format.h)
struct Kernel {
  const char* name = "";
  std::string body{};
  Extent extent{};
  std::vector<Number> constants{};
  std::vector<Number> params{};
  std::vector<Binding> bindings{};
  std::vector<std::string> snippets{};  // before the body: weight_snippet(...), kMath
  Grid grid{};
  uint32_t threads = kThreads;  // of a workgroup: THREADS
  bool f16 = false;
  bool subgroups = false;
  bool matrices = false;  // of subgroups, which with f16 they need
};

// Counts of a step: the fixed uniforms of every kernel. In WGSL they are `counts`: a member with the name of each
// symbol, then the others.
struct alignas(16) StepCounts {
  std::array<uint32_t, kSymbols> rows{};  // by Symbol
  uint32_t sequences = 0;
  uint32_t zero = 0;
  // The adapters of the step's rows. A row whose scale is 0 counts as a row without an adapter.
  // 1: all rows have the slot slots[0] and the scale adapter_scale, or none has an adapter. Kernels then read neither.
  uint32_t one_adapter = 1;
  float adapter_scale = 0;
  // The slots of the rows, from 1 on: each once, ascending. More than fit there are a range from the first one on.
  uint32_t slot_count = 0;
  uint32_t slots_are_range = 0;
  alignas(16) std::array<uint32_t, 64> slots{};
};

// Adds a snippet unless the kernel has it.
void use_snippet(Kernel& kernel, std::string_view snippet);

// Whether memory is bound as kFours. load4 and store4 then take multiples of four words, and there is no store().
bool is_in_fours(const Kernel& kernel);

// Declares store_each(at, x, count): stores the first `count` of OUTPUTS_EACH neighbouring outputs. In fours it stores
// all four of them.
const char* store_each_text(bool in_fours);

// fn NAME() -> u32: the rows of a value of that extent in this step.
std::string rows_function(std::string_view name, const Extent& extent);

// The whole text. `kernel` has at least the memory bound.
PipelineText pipeline_text(const Kernel& kernel);

// The text for drivers that compile for a processor: each loop begins at its old number plus a zero that the driver
// does not know. Such drivers unroll tens of rounds of loops with known lengths, and then compile the barriers in them
// for seconds.
std::string with_loops_kept(const std::string& wgsl);

// exp, tanh, log and sigmoid within a few ulp, which WGSL does not promise of its own; and tests for numbers that are
// not finite, by their bits.
extern const char* const kMath;

// key_of(x): u32 keys that sort as numbers do, above 1; 1 for a NaN. number_of(key): the number back.
extern const char* const kSortKeys;

// Declares sum_all(x, thread) and max_all(x, thread): sums and maxima over a workgroup, in an order that the adapter
// fixes. Every thread of the workgroup calls them. Afterwards all threads see earlier writes to workgroup memory.
void use_reduce(Kernel& kernel, const Adapter& adapter);

// Declares Token, a key and an index, and is_before(a, b): the larger key is first, and of equal keys the lower index.
// best_of_all(token, thread) is the first of the workgroup's tokens. NONE is behind and ALL before every token.
void use_best(Kernel& kernel, const Adapter& adapter);

// Lets the kernel multiply matrices of subgroups, which the adapter must have.
void use_matrices(Kernel& kernel, const Adapter& adapter);

// Threads of a subgroup, which are neighbours in a workgroup; 0: the adapter has no subgroups, or sizes vary.
uint32_t subgroup_lanes(const Adapter& adapter);
// Lets the kernel use subgroups of SUBGROUP threads, if the adapter has them.
void use_subgroups(Kernel& kernel, const Adapter& adapter);

}  // namespace sluice::webgpu
