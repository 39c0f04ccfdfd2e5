// A recorded program: a flat list of ops over typed values, with everything that a device needs to lay it out. Plain
// data. The Recorder (recorder.h) makes and checks it; nothing changes it afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/op.h"
#include "graph/value.h"
#include "graph/weights.h"

namespace sluice {

// Positions in a page of the key and value cache, and in a tile of attention.
inline constexpr uint32_t kPagePositions = 64;

struct ValueInfo {
  ValueType type{};
  ValueId storage = kNone;  // the value that owns its memory: itself, or the value of which it is a reshaped view
};

enum class StateKind : uint8_t {
  paged,  // keys and values by position, 64 positions a page
  slots,  // one table for all positions before; a page is one slot
};

// States of one group see the same positions and share page tables. window == 0: they see every position; otherwise
// pages wholly behind the last `window` positions may be freed. All slot states of a program are one group.
struct PageGroup {
  uint32_t window = 0;
  StateKind kind = StateKind::paged;
  bool operator==(const PageGroup&) const = default;
};

// Page table of a sequence in a slot group. Entry kSlotRead: the slot that the step reads, or -1 for zeros, the state
// before position 0. Entry kSlotWritten: the slot that it writes, never the same, so a step may be run again. Entry
// kSlotEntries + i, if there is one: a slot for the state after the sequence's row i of the step, or -1; with these a
// step may stand in part.
inline constexpr uint32_t kSlotRead = 0, kSlotWritten = 1;
inline constexpr uint32_t kSlotEntries = 2;

// State of one layer. Paged: `heads` keys and values of each position. In a slot: f32 [heads, key_width, value_width].
struct StateDecl {
  std::string name{};  // "layer.3.kv"
  uint32_t group = 0;
  uint32_t heads = 1;
  uint32_t key_width = 0;
  uint32_t value_width = 0;

  uint64_t slot_elements() const { return uint64_t{heads} * key_width * value_width; }
};

// The elements of pair i, counted from the first that turns. halves: (i, i + pairs). adjacent: (2i, 2i + 1).
// adjacent_to_halves reads (2i, 2i + 1) and writes (i, i + pairs), as transformers does for interleaved weights.
enum class Pairing : uint8_t { halves, adjacent, adjacent_to_halves };

// The elements of a head that pair i turns: x[a] and x[b] become out[c] and out[d].
struct RopeElements {
  uint64_t a = 0, b = 0, c = 0, d = 0;
};
constexpr RopeElements rope_elements(Pairing pairing, uint64_t first, uint64_t i, uint64_t pairs) {
  const uint64_t half = first + i, adjacent = first + 2 * i;
  const bool reads_halves = pairing == Pairing::halves, writes_adjacent = pairing == Pairing::adjacent;
  return {.a = reads_halves ? half : adjacent,
          .b = reads_halves ? half + pairs : adjacent + 1,
          .c = writes_adjacent ? adjacent : half,
          .d = writes_adjacent ? adjacent + 1 : half + pairs};
}

// Angles of pair i at position p are p * inverse_frequencies[i], computed in f32 on the host as transformers does;
// cos and sin are multiplied by `magnitude`. Pictures have several positions a row, by time, height and width: then
// `coordinates` is the input that holds them, and axes[i] is the column of it by which pair i turns.
struct RopeDecl {
  std::vector<float> inverse_frequencies{};  // one a pair; 0: the pair does not turn
  std::vector<uint32_t> axes{};              // one a pair, or empty: column 0
  ValueId coordinates = kNone;               // i32 input [extent of the rows that turn, axes]; none: the row's position
  Pairing pairing = Pairing::halves;
  float magnitude = 1.0f;
  bool operator==(const RopeDecl&) const = default;
};

struct NamedValue {
  std::string name{};
  ValueId value = kNone;
  // The heads that a trace shows of a marked intermediate, if a source keeps them in another order or a model reads
  // some several times; empty: all in order.
  std::vector<uint32_t> heads{};
};

// A run of ops whose meaning is those ops, for which a device may have one kernel.
enum class BlockKind : uint8_t { qkv, gated_mlp, moe };
inline constexpr int kBlockKinds = 3;
struct BlockDoc {
  const char* name = "";
  const char* ops = "";  // the form that the recorder checks
};
const BlockDoc& block_doc(BlockKind kind);

struct Block {
  BlockKind kind{};
  uint32_t first_op = 0;
  uint32_t end_op = 0;
};

// A run of ops that guesses the experts of the op `experts` (graph/expert_guesses.h); its last op is a `route`. Nothing
// reads its results. A device plays it only in steps that ask for guesses.
struct ExpertGuess {
  uint32_t first_op = 0;
  uint32_t end_op = 0;
  uint32_t experts = 0;
};

// Tokens that hold the places of a picture's or sound's rows. The input "tokens" has `read_as` in their place.
struct Placeholders {
  std::vector<int32_t> tokens;
  int32_t read_as = 0;
};

struct Program {
  std::vector<ValueInfo> values;
  std::vector<WeightDecl> weights;
  std::vector<StateDecl> states;
  std::vector<PageGroup> groups;
  std::vector<RopeDecl> ropes;
  std::vector<NamedValue> inputs;  // filled by the step: "tokens" i32 [rows, 1], "wanted" i32 [wanted, 1], ...
  std::vector<Symbol> symbols;     // whose counts a step gives: those of the inputs, and `rows` if there is `wanted`
  Placeholders placeholders;
  std::vector<NamedValue> outputs;  // alive at the end of a step: "logits", "sample"
  std::vector<NamedValue> names;    // marked intermediates, kept only by a traced plan
  std::vector<Op> ops;
  std::vector<int32_t> layers;       // of each op; -1 outside any layer
  std::vector<Block> blocks;         // in order, not overlapping
  std::vector<ExpertGuess> guesses;  // likewise
};

bool has_symbol(const Program& program, Symbol symbol);

// Of the rows of a rope's table: those of its coordinates, or of the step.
Extent rope_extent(const Program& program, RopeId rope);

}  // namespace sluice
