// The CPU's plan: the layout of the arena of activations, the caches and scratch. It sees no weight.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "device/cpu/kernels.h"
#include "device/cpu/simd_level.h"
#include "device/device.h"
#include "graph/arena.h"

namespace sluice::cpu {

// Keys and values of one state: pages one after another, keys and values apart.
//   keys    [page][kv head][key width][64]
//   values  [page][kv head][64][cache_width(value width)]
// A slot state has its tables, f32 [heads][key width][value width], in the place of keys, and no values.
struct StateLayout {
  uint64_t keys = 0;  // offsets of the state's first page in the cache memory
  uint64_t values = 0;
  uint64_t key_head_bytes = 0;  // of one head of a page
  uint64_t value_head_bytes = 0;
  uint64_t key_page_bytes = 0;
  uint64_t value_page_bytes = 0;
};

// An op, or a block that is computed as one.
struct Dispatch {
  uint32_t first_op = 0;
  uint32_t end_op = 0;
  const Block* block = nullptr;  // null: a single op
};

// Bytes of the parts of scratch. Each part begins on a cache line.
struct Scratch {
  uint64_t quantised = 0;      // rows of 8-bit activations of the widest product
  uint64_t bf16 = 0;           // the same of activations in bf16
  uint64_t expert_rows = 0;    // the gathered rows of all chosen experts, later the experts' results
  uint64_t expert_gate = 0;    // the gate products of those rows
  uint64_t expert_up = 0;      // the up products of those rows
  uint64_t own_pages = 0;      // keys and values of the step's own rows, as pages have them
  uint64_t adapter_inner = 0;  // rows times the first factors of a dispatch's adapters
  uint64_t adapter_scales = 0;
  uint64_t part_sums = 0;       // sums of blocks of queries over parts of a history
  uint64_t thread = 0;          // for each thread: a decoded panel of weights, or results of attention
  uint64_t sample_thread = 0;   // for each thread: rows of logits
  uint64_t loss_logits = 0;     // of loss_rows() rows
  uint64_t attention_sums = 0;  // QuerySums of all queries
};

// Rows whose logits the loss holds at a time: 128 of the largest vocabulary, in 134 MB. The vocabulary's matrix is
// decoded twice for each of these blocks, which took half of a step's time for blocks of 32.
constexpr uint64_t loss_rows(uint64_t vocabulary) {
  constexpr uint64_t kFloats = uint64_t{1} << 25;
  return std::clamp<uint64_t>(kFloats / vocabulary, 16, 1024);
}

// Floats between their rows. With a large power of two, rows would evict each other from the caches.
constexpr uint64_t loss_stride(uint64_t vocabulary) { return (vocabulary + 15) / 16 * 16 + 16; }

// The sums of a query's softmax, for its gradient. mean: of the gradients of its shares.
struct QuerySums {
  float largest = 0, sum = 0, mean = 0;
};
// Queries and keys whose scores a thread holds for gradients, and the rows whose states it holds.
inline constexpr uint32_t kQueryBlock = 64, kKeyBlock = 64, kDeltaRows = 16;

// Threads split a history into parts if there are fewer blocks of queries a thread than kBlocksPerThread. Each thread
// then has room for kPartsPerThread parts. block_floats(): floats of a block's sums.
inline constexpr uint32_t kBlocksPerThread = 4, kPartsPerThread = 16;
constexpr uint64_t block_floats(uint32_t value_width) { return uint64_t{kMaxQueries} * partial_floats(value_width); }

// A thread's scratch in floats for the router's choice, and for attention over latents.
uint64_t route_scratch(const Route& op, uint64_t experts);
struct LatentScratch {
  uint64_t results = 0, folded = 0, attended = 0, product = 0, adapter = 0, end = 0;  // offsets in floats
};
// `rank`: of the adapters of both matrices, the higher one.
LatentScratch latent_scratch(uint32_t latent, const WeightShape& key, const WeightShape& value, uint32_t rank);

// 0: neither matrix has adapters.
uint32_t adapter_rank(const Program& program, const Expansion& expand);

// Keys and values of the step's own rows in tiles, as attention reads them: for each head the keys of all tiles, then
// the values. They are f32, or pairs of bf16 (kernels/attend_pairs.h).
struct OwnPages {
  uint64_t heads = 0, tiles = 0;            // tiles of a head, at most
  uint64_t key_bytes = 0, value_bytes = 0;  // of a tile

  uint64_t keys_at(uint64_t head, uint64_t tile) const {
    return head * tiles * (key_bytes + value_bytes) + tile * key_bytes;
  }
  uint64_t values_at(uint64_t head, uint64_t tile) const { return keys_at(head, tiles) + tile * value_bytes; }
  uint64_t bytes() const { return keys_at(heads, 0); }
};
OwnPages own_pages(const Attention& op, const Program& program, uint64_t rows, bool in_pairs);

// Null: the CPU has no caches with elements of this format.
const CacheKernels* cache_kernels(const Kernels& kernels, Format format);

class CpuPlan final : public Plan {
 public:
  // `request` has been checked.
  CpuPlan(const PlanRequest& request, const SimdInfo& simd, uint32_t threads);

  std::vector<MemoryLine> memory() const override;
  uint64_t page_bytes(uint32_t group) const override { return page_bytes_[group]; }
  std::string numerics_id() const override;

  const PlanRequest& request() const { return request_; }
  const Program& program() const { return *request_.program; }
  const Kernels& kernels() const { return *simd_.kernels; }
  const Bf16Kernels* bf16() const { return simd_.bf16; }  // null: the level has none
  Format cache_format() const;
  const CacheKernels& cache_kernels() const { return *cpu::cache_kernels(kernels(), cache_format()); }
  const Arena& arena() const { return arena_; }
  const Scratch& scratch() const { return scratch_; }
  uint32_t threads() const { return threads_; }
  const std::vector<StateLayout>& states() const { return states_; }
  const std::vector<Dispatch>& dispatches() const { return dispatches_; }
  const std::vector<Dispatch>& single_ops() const { return single_ops_; }  // each op alone, without blocks
  // Weights that are decoded to f32 at load: factors of norms, scales and routers.
  const std::vector<bool>& is_factor() const { return is_factor_; }
  uint64_t cache_bytes() const { return cache_bytes_; }
  // Bytes of all slots for experts; whether a weight's experts lie in slots.
  uint64_t slot_bytes() const { return request_.expert_slots.count * request_.expert_slots.bytes; }
  bool is_streamed(WeightId weight) const { return is_streamed_[weight]; }
  // The streamed op `experts` whose experts the `route` at `op` chooses, or kNone.
  uint32_t experts_of_route(uint32_t op) const { return experts_of_route_[op]; }
  // The guess of experts to which `op` belongs, or null.
  const ExpertGuess* guess(uint32_t op) const {
    return guess_of_[op] == kNone ? nullptr : &program().guesses[guess_of_[op]];
  }
  uint64_t activation_bytes() const;
  uint64_t mapped_bytes() const;  // of weights that are used in place, without tables of which single rows are read

  // If the request wants packed weights: the weights of products with 8-bit activations in the order of their use,
  // their packed bytes, and the packed bytes that one token reads.
  const std::vector<WeightId>& packed_weights() const { return packed_weights_; }
  uint64_t packed_bytes() const { return packed_bytes_; }
  uint64_t packed_bytes_of_token() const { return packed_bytes_of_token_; }

  // The kernel of a product of this weight and f32 activations; whether products of it use activations of 8 bits, or in
  // bf16; whether attention is that of kernels/attend_pairs.h.
  ProductKernel product_kernel(WeightId weight) const;
  bool takes_8bit(WeightId weight) const;
  bool takes_8bit_transposed(WeightId weight) const;
  bool takes_bf16(WeightId weight) const;
  bool attends_in_pairs(const Attention& op) const;
  bool rounds_to_bf16() const {
    return request_.round_to_bf16 && request_.arithmetic == Arithmetic::fast && bf16() != nullptr;
  }

 private:
  void lay_out_states();
  void find_factors();
  void find_streamed();
  void find_packed();
  void size_scratch();
  void size_product(uint64_t rows, WeightId weight);
  void size_transposed(uint64_t rows, WeightId weight);
  void size_thread(uint64_t floats);
  void size_experts(const Experts& op);
  void size_adapters(const Dispatch& dispatch);
  void size_training(const Op& op);
  void size_choices(ValueId by_choice, uint64_t columns, uint64_t other_columns);
  uint64_t maximum_rows(ValueId id) const;

  PlanRequest request_;
  const SimdInfo& simd_;
  uint32_t threads_;
  Arena arena_;
  Scratch scratch_;
  std::vector<StateLayout> states_;
  std::vector<uint64_t> page_bytes_;
  std::vector<Dispatch> dispatches_;
  std::vector<Dispatch> single_ops_;
  std::vector<bool> is_factor_;
  std::vector<bool> is_streamed_;           // by weight
  std::vector<uint32_t> experts_of_route_;  // by op
  std::vector<uint32_t> guess_of_;          // by op
  std::vector<WeightId> packed_weights_;
  uint64_t packed_bytes_ = 0, packed_bytes_of_token_ = 0;
  uint64_t cache_bytes_ = 0;
  uint64_t factor_bytes_ = 0;
};

}  // namespace sluice::cpu
