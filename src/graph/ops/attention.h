// rope, append, attention, expand: positions, the key and value cache, and reading it.
//
// Rows of extent `rows` are the step's own. Rows of extent `wanted` stand for the row that the program's input
// "wanted" names, and have its position and sequence.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/ops/adapter.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

// Rotates pairs of a head by the row's position or coordinates; elements before `first` and beyond 2 * pairs from it
// pass through.
struct Rope {
  ValueId x = kNone;
  RopeId table = kNone;
  uint32_t first = 0;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "rope",
      .formula =
          "out[c] = x[a] cos_i - x[b] sin_i\n"
          "out[d] = x[b] cos_i + x[a] sin_i\n"
          "(a, b), counted from `first`, is (i, i + pairs) or (2i, 2i + 1), as the table says, and (c, d) the same, "
          "or (i, i + pairs) where the table parts adjacent pairs; cos and sin of position inverse_frequency[i] come "
          "with the step, made on the host; position is the row's, or the coordinate that the table names for pair i",
      .source =
          "Su et al. 2021 (arXiv:2104.09864); the half-split pairing is transformers' apply_rotary_pos_emb, the "
          "parted one its apply_rotary_pos_emb_interleave (DeepSeek-V3)",
      .tolerance = {.exact = 1e-6f, .fast = 1e-6f, .fast_8bit = 1e-6f},
      .reason = "two products and a sum in f32; no angle is computed on a device",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("x", x, "f32 [extent, heads, width], width >= first + 2 pairs");
    v.output("out", out, "as x");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// Writes each row's key and value at its sequence's position. Rows are provisional: a later step may write the same
// positions again.
struct Append {
  StateRef state{};
  ValueId k = kNone;
  ValueId v = kNone;
  StateRef next{};

  static constexpr OpDoc kDoc = {
      .name = "append",
      .formula = "next = state with key[sequence[r]][position[r]] = k[r], value[sequence[r]][position[r]] = v[r]",
      .source =
          "the key and value cache of Shazeer 2019 (arXiv:1911.02150), in pages (Kwon et al. 2023, "
          "arXiv:2309.06180)",
      .tolerance = {.exact = 1e-5f, .fast = 2e-3f, .fast_8bit = 2e-3f},
      .reason = "seen through attention. exact: an f32 cache. fast: an f16 cache (2^-11 an element)",
  };
  template <class Visitor>
  void operands(Visitor& visitor) const {
    visitor.reads("state", state, "the version before");
    visitor.input("k", k, "f32 [rows, kv heads, key width]");
    visitor.input("v", v, "f32 [rows, kv heads, value width]");
    visitor.writes("next", next, "the version after");
  }
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// How every head makes its key and value of one latent that all heads share (multi-head latent attention).
struct Expansion {
  WeightId key = kNone;         // heads x [nope, latent]
  WeightId value = kNone;       // heads x [value width, latent]
  bool key_transposed = false;  // key is heads x [latent, nope]
  // Of attention alone: the adapters of the rows that attend. A row's sequence has them from its start, so they act on
  // every latent that the row sees.
  AdapterOperand key_adapter{}, value_adapter{};
  explicit operator bool() const { return key != kNone; }
};

// What an attention meets its queries with.
struct KeyShape {
  uint32_t heads = 1, key_width = 1, value_width = 1;
};

// Attention of a row to a range of keys. The keys are those that the cache of the row's sequence holds, the step's own
// rows among them, or `k` and `v`: those of the step's own rows alone, as towers and training have them. Attention to
// what is cached and to rows that are not to stay there needs no third form: appended rows are provisional.
//
// Rows with positions (extents in rows and wanted) see positions first to last of their sequence; of own rows, those
// positions that the step has. Without inputs a row sees to its own position, from the begin of its window or of its
// sequence. The inputs `first` and `last` say otherwise: the row of a picture may see to the picture's end. What they
// name must be there: a position before the sequence's end in this step, and none that a state with a window dropped.
//
// Rows without positions (those of towers) have no cache. They see rows first to last of k, and both inputs are given.
// With `relative` a key is another one for each distance from the query: row d of the table is added to keys d rows
// before the query's; keys behind it, and those further away than the table goes, stay as they are.
//
// Keys are read in tiles of 64, merged in ascending order: tiles of positions at absolute multiples of 64, tiles of a
// tower's rows from the row's `first` on. So a row's result is a function of what it sees alone.
//
// With `expand` the cache is latent: its one head holds the shared rotated key as key and the latent as value, and the
// keys and values attended to are what the op expand makes of them. A device expands, or folds the matrices into query
// and result; the cache is latent either way.
struct Attention {
  ValueId q = kNone;
  StateRef state{};                     // none: nothing is cached
  ValueId k = kNone, v = kNone;         // none: all keys are cached
  ValueId first = kNone, last = kNone;  // inputs of the program; none: as the window and the row's own position say
  float scale = 1.0f;
  uint32_t window = 0;   // positions seen up to the row's own; 0: all
  float softcap = 0.0f;  // 0: none
  Expansion expand{};
  WeightId relative = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "attention",
      .formula =
          "s_j = scale q[h] . key[j][h / group], or softcap tanh(that / softcap)\n"
          "out[h] = sum_j softmax_j(s_j) value[j][h / group]\n"
          "for the row at position p, over first <= j <= last; group = heads / kv heads\n"
          "first: the input, or max(0, p - window + 1) with a window, or 0; last: the input, or p\n"
          "(key, value)[j] is the cache's; with k and v, those of the sequence's row at position j, and no j is before "
          "the sequence's first row in the step\n"
          "of rows without positions: first and last are inputs and count rows of k; with relative, key[j] of the "
          "query at row r is key[j] + relative[r - j]\n"
          "over a latent cache: (key, value)[j][h] = expand(latent[j], shared[j])[h]\n"
          "with an adapter, where the row has a slot s and a scale other than 0, each matrix of expand is\n"
          "W[h] + scale b[s][h] a[s][h]",
      .source =
          "Vaswani et al. 2017 (arXiv:1706.03762); tiles merged as in Milakov and Gimelshein 2018 "
          "(arXiv:1805.02867); latent caches: DeepSeek-V2 (arXiv:2405.04434) section 2.1; relative keys: Shaw et al. "
          "2018 (arXiv:1803.02155), Gemma 4's audio tower",
      .tolerance = {.exact = 1e-5f, .fast = 1e-2f, .fast_8bit = 1e-2f},
      .reason =
          "exact: f32 sums in another order, exp within 2 ulp. fast: f16 caches and queries (2^-11 an element, "
          "which scores of a few tens turn into per mille), a shorter exp; a tower's rows in f16 or bf16 (2^-9, which "
          "sums over many rows even out)",
  };
  template <class Visitor>
  void operands(Visitor& visitor) const {
    visitor.input("q", q, "f32 [extent, heads, key width]; latent: [extent, heads, nope + key width]");
    visitor.reads("state", state,
                  "holds the step's own rows already; latent: [1 head, shared key and latent]; or none");
    visitor.input("k", k, "no state: f32 [rows, kv heads, key width], of q's extent where it has no positions");
    visitor.input("v", v, "no state: f32 [rows of k, kv heads, value width]");
    visitor.input("first", first, "i32 [extent, 1], an input of the program; or none");
    visitor.input("last", last, "likewise");
    visitor.weight("expand.key", expand.key, "latent: as expand's key, else none");
    visitor.weight("expand.value", expand.value, "latent: as expand's value, else none");
    visitor.weight("key_a", expand.key_adapter.a, "slots x heads x [rank, columns of key], or none: no adapter");
    visitor.weight("key_b", expand.key_adapter.b, "slots x heads x [rows of key, rank]");
    visitor.weight("value_a", expand.value_adapter.a, "slots x heads x [rank, latent], or none");
    visitor.weight("value_b", expand.value_adapter.b, "slots x heads x [value width, rank]");
    const AdapterOperand& adapter = expand.key_adapter ? expand.key_adapter : expand.value_adapter;
    visitor.input("adapter.slots", adapter.slots, "i32 [rows, 1], for each row of the step: 0 for none, or 1 + a slot");
    visitor.input("adapter.scales", adapter.scales, "f32 [rows, 1]");
    visitor.weight("relative", relative, "rows without positions: [distances, kv heads key width], or none");
    visitor.output("out", out, "f32 [extent, heads, value width]");
  }
  bool has_cache() const { return state.state != kNone; }
  bool has_own_rows() const { return k != kNone; }
  // Over a cache alone, from the start of the window or of the sequence.
  bool begins_by_window() const { return !has_own_rows() && first == kNone; }
  KeyShape keys(const Program& program) const;
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

// The keys and values of the step's own rows, where latents are all that is cached.
struct Expand {
  ValueId latent = kNone;
  ValueId shared = kNone;
  Expansion weights{};
  ValueId key = kNone;
  ValueId value = kNone;

  static constexpr OpDoc kDoc = {
      .name = "expand",
      .formula =
          "key[h] = [W_key[h] latent, shared]\n"
          "value[h] = W_value[h] latent",
      .source = "DeepSeek-V2 (arXiv:2405.04434) section 2.1; transformers DeepseekV3Attention (kv_b_proj)",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "f32 activations against decoded weights in both arithmetics; f32 sums in another order",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("latent", latent, "f32 [extent, latent]");
    v.input("shared", shared, "f32 [extent, shared]");
    v.weight("weights.key", weights.key, "heads x [nope, latent], or transposed heads x [latent, nope]");
    v.weight("weights.value", weights.value, "heads x [value width, latent]");
    v.output("key", key, "f32 [extent, heads, nope + shared]");
    v.output("value", value, "f32 [extent, heads, value width]");
  }
  ValueType key_result(const Program& program) const;
  ValueType value_result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
