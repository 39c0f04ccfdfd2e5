// The CPU's kernels as one table of functions for each instruction set, chosen at run time.
//
// A kernel computes; it knows no program, no thread and no page table. The files kernels_*.cpp make the tables from the
// templates in kernels/ and a vector type of isa/; only they are compiled for more than the baseline.
//
// One row's result is the same bits however many rows a call has, and an element's wherever it stands: sums run in one
// order that belongs to the format and the width (kernels/product.h, kernels/product_8bit.h), and tails go through the
// same instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/format.h"
#include "graph/ops/elementwise.h"
#include "graph/weights.h"

namespace sluice::cpu {

// Weight rows (outputs) that a product works on together; threads share out whole panels.
inline constexpr uint32_t kPanelOutputs = 16;
// Queries that one call of attend takes.
inline constexpr uint32_t kMaxQueries = 16;

// Weights in parts whose elements are integers, in whole groups of whole sixteens, under a factor and then an offset:
// those of row r at factors + r * factor_stride, and so on. group 0: the weights are no such ones.
struct AffineRows {
  Format elements{};  // u2 ... u8
  Format factor_format{}, offset_format{};
  uint32_t group = 0;
  const std::byte* factors = nullptr;
  const std::byte* offsets = nullptr;
  uint64_t factor_stride = 0, offset_stride = 0;
};

// out[r][o] = sum_i weight[o][i] x[r][i]. Strides in bytes, of out in floats; rows of x are f32, or 8-bit blocks made
// by `quantise`.
struct ProductArgs {
  const std::byte* weight = nullptr;
  uint64_t weight_stride = 0;
  const std::byte* x = nullptr;
  uint64_t x_stride = 0;
  float* out = nullptr;
  uint64_t out_stride = 0;
  uint32_t columns = 0;
  uint32_t rows = 0;  // of x
  // Beside `weight` or, without groups, in its place, for product_in_parts:
  AffineRows affine{};
  const TensorSource* source = nullptr;
  uint32_t expert = 0;
};
// A thread's scratch in floats: a block's weights and sums (kernels/product_blocks.h), then a decoded panel.
inline constexpr uint32_t kBlockScratch = 73728;
constexpr uint64_t product_scratch(uint64_t columns) { return kBlockScratch + kPanelOutputs * columns; }
// Outputs [first, last). `scratch`: product_scratch(columns) floats of this thread.
using ProductKernel = void (*)(const ProductArgs& args, uint32_t first, uint32_t last, float* scratch);

// How kPanelOutputs rows of weights are packed, block by block: a block's words from byte words_at on, word w of row l
// at 4 (kPanelOutputs w + l); then the one to three bytes that are left of each row's block, row after row.
struct BlockPacking {
  uint32_t bytes = 0;  // of a row's block
  uint32_t words_at = 0;
};

struct FormatKernels {
  ProductKernel product = nullptr;       // f32 activations; null: the CPU does not compute with the format
  ProductKernel product_8bit = nullptr;  // 8-bit activations; null: the format has no such kernel
  // The same bits from packed weights, where weight_stride is still a row's bytes; `first` begins a panel.
  ProductKernel product_packed = nullptr;
  BlockPacking packing{};
  // out = weight row * factor
  void (*decode)(const std::byte* row, float* out, size_t n, float factor) = nullptr;
};

// A query of one row and head, and where its result goes. It sees positions [first, last]. Over a latent cache q is
// the part that meets the shared key, and `latent` the rest, folded through the key's matrix: cache_width(value width)
// elements whose products with a position's value are part of its score.
struct Query {
  const float* q = nullptr;
  const float* latent = nullptr;  // all queries of a call have it, or none
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
  float* scratch = nullptr;  // of attend: 2 count partial sums; of attend_part: where its sums go
};

// Elements of a cached value row: whole vectors.
constexpr uint32_t cache_width(uint32_t width) { return (width + 15) / 16 * 16; }

// Positions whose attention is summed by itself, at absolute multiples; a query's sums are merged in ascending order.
// So threads may share out a history, and whether they do changes no bit.
inline constexpr uint32_t kPartPositions = 256;
// Floats of a query's sum over some parts: values weighted by exp(score - largest), then `largest` and the weights'
// sum.
constexpr uint32_t partial_floats(uint32_t value_width) { return cache_width(value_width) + 16; }

// For one element format of the cache.
struct CacheKernels {
  uint32_t element_bytes = 0;
  // One head of one row at `position` of a page: into [key width][64], and into [64][cache_width].
  void (*append_key)(const float* key, std::byte* keys, uint32_t width, uint32_t position) = nullptr;
  void (*append_value)(const float* value, std::byte* values, uint32_t width, uint32_t position) = nullptr;
  void (*attend)(const AttendArgs& args) = nullptr;
  // The same in steps: one sum a query over positions [part * kPartPositions, ...), one after another in args.scratch;
  // sum = sum and the next part's; the query's result.
  void (*attend_part)(const AttendArgs& args, uint32_t part) = nullptr;
  void (*merge)(float* sum, const float* part, uint32_t value_width) = nullptr;
  void (*finish)(const float* sum, float* out, uint32_t value_width) = nullptr;
};

// `pairs` pairs from x on, of which `width` elements are there: the rest is copied.
struct RopeArgs {
  const float* x = nullptr;
  float* out = nullptr;
  const float* cosines = nullptr;
  const float* sines = nullptr;
  uint32_t pairs = 0;
  uint32_t width = 0;
};

// One head of one row, in place or not; no weight, no bias: null.
struct LayerNormArgs {
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  float eps = 0.0f;
  size_t n = 0;
};

// The slot that a step reads, null for zeros, and the one that it writes; never the same.
struct SlotArgs {
  const float* before = nullptr;
  float* after = nullptr;
};

// Rows of one sequence through a causal convolution of each channel; channels [first, last) of them.
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

// Columns of the state of one value head that a call of delta_rule takes at most.
inline constexpr uint32_t kDeltaColumns = 64;

// Rows of one sequence and one value head, and columns [first, last) of its state. Strides from row to row in elements.
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
};

// A loop of multiplications and additions, kernels/peak.h.
struct PeakKernel {
  float (*run)(size_t rounds) = nullptr;
  uint64_t round_flops = 0;
};

struct Kernels {
  FormatKernels formats[kFormats];           // by Format
  ProductKernel product_in_parts = nullptr;  // weights whose scales lie in tensors of their own, f32 activations
  CacheKernels cache_f32;
  CacheKernels cache_f16;
  CacheKernels cache_bf16;

  // Rows of 8-bit blocks: bytes of `columns` elements, a multiple of 32, and their making.
  uint64_t (*quantised_bytes)(uint64_t columns) = nullptr;
  void (*quantise)(const float* x, std::byte* out, size_t columns) = nullptr;

  // One head of one row; no weight: null.
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
  // The largest, -infinity when n is 0; NaN may be passed over.
  float (*largest)(const float* x, size_t n) = nullptr;
  // The sum of exp(x - shift).
  float (*exp_sum)(const float* x, float shift, size_t n) = nullptr;

  PeakKernel peak_f32, peak_integers;
};

extern const Kernels kScalarKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512VnniKernels;
extern const Kernels kAmxKernels;
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;
extern const Kernels kNeonI8mmKernels;
#elif defined(__wasm_simd128__)
extern const Kernels kSimd128Kernels;
#endif

}  // namespace sluice::cpu
