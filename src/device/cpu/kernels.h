// The CPU's kernels as one table of functions for each instruction set, chosen at run time.
//
// A kernel knows no program and no thread. The files kernels_*.cpp fill the tables from the templates in kernels/ and a
// vector type of isa/. Only those files are compiled for more than the baseline.
//
// A row's bits do not depend on the number of rows in a call, and an element's bits not on its place. A sum has one
// order, fixed by format and width (kernels/product.h, kernels/product_8bit.h); tails use the same instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/format.h"
#include "graph/ops/elementwise.h"
#include "graph/weights.h"

namespace sluice::cpu {

// Weight rows (outputs) that a product computes together. Threads split whole panels.
inline constexpr uint32_t kPanelOutputs = 16;
// Queries that one call of attend takes.
inline constexpr uint32_t kMaxQueries = 16;

// Weights in parts with integer elements: weight = factor * element + offset. Each group of `group` elements, a
// multiple of 16, has a factor and an offset; those of row r begin at factors + r * factor_stride and offsets + r *
// offset_stride. group 0: the weights are not of this kind.
struct AffineRows {
  Format elements{};  // u2 ... u8
  Format factor_format{}, offset_format{};
  uint32_t group = 0;
  const std::byte* factors = nullptr;
  const std::byte* offsets = nullptr;
  uint64_t factor_stride = 0, offset_stride = 0;
};

// out[r][o] = sum_i weight[o][i] x[r][i]. Strides in bytes, of out in floats; rows of x are f32, 8-bit blocks made by
// `quantise`, or bf16 made by `round` (Bf16Kernels).
struct ProductArgs {
  const std::byte* weight = nullptr;
  uint64_t weight_stride = 0;
  const std::byte* x = nullptr;
  uint64_t x_stride = 0;
  float* out = nullptr;
  uint64_t out_stride = 0;
  uint32_t columns = 0;
  uint32_t rows = 0;  // of x
  // For product_in_parts: `affine` beside `weight`, or, if it has no groups, `source` in the place of `weight`.
  AffineRows affine{};
  const TensorSource* source = nullptr;
  uint32_t expert = 0;
};
// A thread's scratch in floats: weights and sums of a block of rows (kernels/product_blocks.h), then a decoded panel.
inline constexpr uint32_t kBlockScratch = 73728;
constexpr uint64_t product_scratch(uint64_t columns) { return kBlockScratch + kPanelOutputs * columns; }
// Computes outputs [first, last). `scratch`: product_scratch(columns) floats of this thread.
using ProductKernel = void (*)(const ProductArgs& args, uint32_t first, uint32_t last, float* scratch);

// out[r][o] += scales[r] * sum_i weight[o][i] x[r][i] for outputs [first, last), x in f32. The sums have the bits of
// ProductKernel. `scratch`: added_scratch(columns) floats of this thread.
using AddKernel = void (*)(const ProductArgs& args, const float* scales, uint32_t first, uint32_t last, float* scratch);
constexpr uint64_t added_scratch(uint64_t columns) { return 2 * kPanelOutputs * ((columns + 15) / 16 * 16); }

// The packing of kPanelOutputs rows of weights, block by block. First come the 4-byte words of the rows' blocks, which
// begin at byte words_at of a block, in the order in which products read them: word order[w] of row l at
// 4 (kPanelOutputs w + l). Then come the one to three other bytes of each row's block, row after row.
struct BlockPacking {
  uint32_t bytes = 0;  // of a row's block
  uint32_t words_at = 0;
  const uint8_t* order = nullptr;  // a permutation of the block's words
};

struct FormatKernels {
  ProductKernel product = nullptr;       // f32 activations; null: the CPU does not compute with the format
  ProductKernel product_8bit = nullptr;  // 8-bit activations; null: the format has no such kernel
  // Gives the same bits as product_8bit, from packed weights. weight_stride is still the bytes of a stored row; `first`
  // must begin a panel.
  ProductKernel product_packed = nullptr;
  ProductKernel product_packed_ahead = nullptr;  // the same; prefetches weights by instructions
  BlockPacking packing{};
  AddKernel add = nullptr;  // of the formats that adapters have
  // out = weight row * factor
  void (*decode)(const std::byte* row, float* out, size_t n, float factor) = nullptr;
};

// A query of one row and head, which sees positions [first, last]. For a latent cache, q is multiplied by the shared
// key. `latent` is the rest of the query after the key's matrix: cache_width(value width) elements, which are
// multiplied by a position's latent. The score is the sum of both products.
struct Query {
  const float* q = nullptr;
  const float* latent = nullptr;  // set for all queries of a call or for none
  float* out = nullptr;
  uint32_t first = 0;
  uint32_t last = 0;
};

// Queries of one sequence and one kv head. Tile t, positions [64 t, 64 t + 64), lies in page pages[t - first_page]:
// keys at keys + page * key_page_bytes as [key width][64], values at values + page * value_page_bytes as
// [64][padded value width] (cache_width).
struct AttendArgs {
  const Query* queries = nullptr;
  uint32_t count = 0;
  const int32_t* pages = nullptr;
  uint32_t first_page = 0;
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  uint64_t key_page_bytes = 0;
  uint64_t value_page_bytes = 0;
  uint32_t key_width = 0;
  uint32_t value_width = 0;
  float scale = 1.0f;
  float softcap = 0.0f;      // 0: none
  float* scratch = nullptr;  // attend: 2 count partial sums; attend_part: its results
};

// Elements of a cached value row: whole vectors.
constexpr uint32_t cache_width(uint32_t width) { return (width + 15) / 16 * 16; }

// Attention is summed over parts of kPartPositions positions, which begin at absolute multiples, and a query's parts
// are merged in ascending order. So threads may split a history without changing a bit.
inline constexpr uint32_t kPartPositions = 256;
// Floats of a query's partial sum: the sum of values weighted by exp(score - largest), then `largest`, then the sum of
// the weights.
constexpr uint32_t partial_floats(uint32_t value_width) { return cache_width(value_width) + 16; }

// For one element format of the cache.
struct CacheKernels {
  uint32_t element_bytes = 0;
  // Write one head of one row at `position` of a page: a key into [key width][64], a value into [64][cache_width].
  void (*append_key)(const float* key, std::byte* keys, uint32_t width, uint32_t position) = nullptr;
  void (*append_value)(const float* value, std::byte* values, uint32_t width, uint32_t position) = nullptr;
  void (*attend)(const AttendArgs& args) = nullptr;
  // attend() in steps. attend_part(): each query's sum over one part, written to args.scratch. merge(): adds the next
  // part's sum to `sum`. finish(): the query's result.
  void (*attend_part)(const AttendArgs& args, uint32_t part) = nullptr;
  void (*merge)(float* sum, const float* part, uint32_t value_width) = nullptr;
  void (*finish)(const float* sum, float* out, uint32_t value_width) = nullptr;
};

// Rows of one key head for a tile of kernels/attend_pairs.h, which takes their keys and values in bf16. Row j's key is
// at keys + j key_stride. Rows from `count` on are zeros.
struct TileRows {
  const float* keys = nullptr;
  const float* values = nullptr;
  uint64_t key_stride = 0, value_stride = 0;  // in floats
  uint32_t count = 0;
  uint32_t key_width = 0, value_width = 0;
  std::byte* key_tile = nullptr;
  std::byte* value_tile = nullptr;
};
// Floats of AttendArgs::scratch there.
constexpr uint64_t paired_scratch(uint32_t key_width, uint32_t value_width) {
  return uint64_t{kMaxQueries} * (uint64_t{(key_width + 31) / 32} * 16 + cache_width(value_width));
}

// Turns the first `pairs` pairs of the `width` elements of x; copies the rest.
struct RopeArgs {
  const float* x = nullptr;
  float* out = nullptr;
  const float* cosines = nullptr;
  const float* sines = nullptr;
  uint32_t pairs = 0;
  uint32_t width = 0;
};

// One head of one row. `out` may be x. A null weight or bias is not applied.
struct LayerNormArgs {
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  float eps = 0.0f;
  size_t n = 0;
};

// out[r][c] += sum over k < depth of left[r][k] right[k][c]. left[r][k] lies at left + r * left_row_stride + k *
// left_stride; strides in floats.
struct MultiplyAddArgs {
  const float* left = nullptr;
  uint64_t left_row_stride = 0, left_stride = 0;
  const float* right = nullptr;
  uint64_t right_stride = 0;
  float* out = nullptr;
  uint64_t out_stride = 0;
  uint64_t rows = 0, depth = 0, columns = 0;
};

// Columns of transposed products: a block has a weight of each of 32 rows, a panel sixteen columns.
inline constexpr uint32_t kColumnPanels = 16;
inline constexpr uint32_t kColumnBlocks = 8;        // of a panel, so that the second cache holds all panels
inline constexpr uint32_t kColumnsScratch = 40960;  // floats of all panels

// out[r][c] (+)= sum over rows i of some blocks of weight[i][c] x[r][i]. Strides in bytes, of out in floats.
struct TransposedArgs {
  const float* panels = nullptr;
  uint32_t blocks = 0;
  const std::byte* x = nullptr;  // rows of 8-bit blocks, from the first of these blocks on
  uint64_t x_stride = 0;
  float* out = nullptr;
  uint64_t out_stride = 0;
  uint32_t rows = 0, columns = 0;
  bool begins = false;  // out is not added to
};

// One head of one row. `size`: the width of rms_norm, 1 of l2_norm. A null weight is not applied.
struct NormBackwardArgs {
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* d_out = nullptr;
  float* d_x = nullptr;
  float eps = 0.0f;
  float size = 1.0f;
  size_t n = 0;
};

// The slot that a step reads (null: zeros) and the slot that it writes; they are never the same.
struct SlotArgs {
  const float* before = nullptr;
  float* after = nullptr;
};

// A causal convolution along the rows of one sequence, for channels [first, last).
struct ConvArgs {
  const float* x = nullptr;  // [rows][channels]
  float* out = nullptr;
  const float* weight = nullptr;  // [channels][taps]
  SlotArgs slot{};                // [taps - 1][channels]
  uint64_t rows = 0;
  uint64_t channels = 0;
  uint32_t taps = 0;
  uint64_t first = 0, last = 0;
};

// The most columns of a value head's state in one call of delta_rule.
inline constexpr uint32_t kDeltaColumns = 64;

// Rows of one sequence for one value head, and columns [first, last) of the head's state. Strides between rows in
// elements.
struct DeltaArgs {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* decay = nullptr;
  const float* beta = nullptr;
  float* out = nullptr;
  uint64_t key_stride = 0, value_stride = 0, gate_stride = 0;
  SlotArgs slot{};  // [key width][value width]
  uint64_t rows = 0;
  uint32_t key_width = 0, value_width = 0;
  float scale = 1.0f;
  uint32_t first = 0, last = 0;
  bool ahead = false;  // of a single row, on a processor that reads_ahead()
};

// A loop of multiplications and additions (kernels/peak.h).
struct PeakKernel {
  float (*run)(size_t rounds) = nullptr;
  uint64_t round_flops = 0;
};

struct Kernels {
  FormatKernels formats[kFormats];           // by Format
  ProductKernel product_in_parts = nullptr;  // f32 activations and weights with scales in tensors of their own
  CacheKernels cache_f32;
  CacheKernels cache_f16;
  CacheKernels cache_bf16;

  // Rows of 8-bit blocks: the bytes of a row of `columns` elements, a multiple of 32; makes a row.
  uint64_t (*quantised_bytes)(uint64_t columns) = nullptr;
  void (*quantise)(const float* x, std::byte* out, size_t columns) = nullptr;

  // Norms of one head of one row. A null weight is none.
  void (*rms_norm)(const float* x, const float* weight, float eps, float* out, size_t n) = nullptr;
  void (*l2_norm)(const float* x, float eps, float* out, size_t n) = nullptr;
  void (*layer_norm)(const LayerNormArgs& args) = nullptr;
  void (*short_conv)(const ConvArgs& args) = nullptr;
  void (*delta_rule)(const DeltaArgs& args) = nullptr;
  void (*rope_halves)(const RopeArgs& args) = nullptr;
  void (*rope_adjacent)(const RopeArgs& args) = nullptr;
  void (*rope_adjacent_to_halves)(const RopeArgs& args) = nullptr;

  // Element by element over n.
  void (*add)(const float* a, const float* b, float* out, size_t n) = nullptr;
  void (*mul)(const float* a, const float* b, float* out, size_t n) = nullptr;
  void (*scale)(const float* x, float factor, float* out, size_t n) = nullptr;
  void (*clamp)(const float* x, float low, float high, float* out, size_t n) = nullptr;
  void (*softcap)(const float* x, float cap, float* out, size_t n) = nullptr;
  void (*activation[kActivationKinds])(const float* x, float* out, size_t n) = {};
  void (*gated_activation[kActivationKinds])(const float* gate, const float* up, float* out, size_t n) = {};
  void (*exp)(const float* x, float* out, size_t n) = nullptr;
  void (*tanh)(const float* x, float* out, size_t n) = nullptr;

  // out += factor * x
  void (*accumulate)(const float* x, float factor, float* out, size_t n) = nullptr;
  // The largest element; -infinity if n is 0. May ignore NaN.
  float (*largest)(const float* x, size_t n) = nullptr;
  // The sum of exp(x - shift).
  float (*exp_sum)(const float* x, float shift, size_t n) = nullptr;

  // Of training (kernels/backward.h).
  void (*multiply_add)(const MultiplyAddArgs& args) = nullptr;
  float (*dot)(const float* a, const float* b, size_t n) = nullptr;
  // Of transposed products with 8-bit rows (kernels/product_transposed.h). round_columns() makes block `block` of the
  // panels from 32 rows of decoded weights, with `stride` floats between rows.
  void (*round_columns)(const float* weights, uint64_t stride, uint32_t columns, uint32_t block,
                        float* panels) = nullptr;
  void (*add_columns)(const TransposedArgs& args) = nullptr;
  void (*norm_backward)(const NormBackwardArgs& args) = nullptr;
  void (*activation_backward[kActivationKinds])(const float* x, const float* d_out, float* d_x, size_t n) = {};

  PeakKernel peak_f32, peak_integers;
};

// Products of bf16 weights with activations rounded to bf16 (kernels/product_bf16.h), and attention of a tower's rows
// (kernels/attend_pairs.h), on levels that have instructions for them.
struct Bf16Kernels {
  // Bytes of a row of `columns` activations; makes a row.
  uint64_t (*row_bytes)(uint64_t columns) = nullptr;
  void (*round)(const float* x, std::byte* out, size_t columns) = nullptr;
  ProductKernel product = nullptr;  // x: rows that `round` made
  void (*lay_out)(const TileRows& rows) = nullptr;
  void (*attend)(const AttendArgs& args) = nullptr;  // queries see rows from 0 on; latents have none
};

extern const Kernels kScalarKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512VnniKernels;
extern const Bf16Kernels kAvx512Bf16Kernels;
extern const Kernels kAmxKernels;
extern const Bf16Kernels kAmxBf16Kernels;
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;
extern const Kernels kNeonI8mmKernels;
#elif defined(__wasm_simd128__)
extern const Kernels kSimd128Kernels;
#endif

}  // namespace sluice::cpu
