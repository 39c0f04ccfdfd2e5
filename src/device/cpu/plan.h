// What the CPU lays out before it sees a weight: the arena of activations, the caches, and scratch.
#pragma once

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

// One step of a replay: an op, or a block computed as one.
struct Dispatch {
  uint32_t first_op = 0;
  uint32_t end_op = 0;
  const Block* block = nullptr;  // null: a single op
};

// Bytes, offsets of parts that begin on cache lines.
struct Scratch {
  uint64_t quantised = 0;      // rows of 8-bit activations, the widest there are
  uint64_t expert_rows = 0;    // the rows of every chosen expert, gathered; later what an expert gives
  uint64_t expert_gate = 0;    // their inner values
  uint64_t expert_up = 0;      //
  uint64_t own_pages = 0;      // keys and values of the step's own rows, as pages have them
  uint64_t adapter_inner = 0;  // rows times the first factors of a dispatch's adapters
  uint64_t adapter_scales = 0;
  uint64_t part_sums = 0;      // sums over parts of a history, each of a block of queries
  uint64_t thread = 0;         // a thread's own: a decoded panel of weights, or results of attention
  uint64_t sample_thread = 0;  // a thread's own: rows of logits
};

// Rows of an adapter's product whose results a thread keeps before it adds them.
inline constexpr uint64_t kAddedRows = 16;

// Attention that threads share out in parts of a history: fewer blocks of queries than this for each thread, which keep
// their sums over all parts before, and as many parts at once for each. Floats of a block's sums.
inline constexpr uint32_t kBlocksPerThread = 4, kPartsPerThread = 16;
constexpr uint64_t block_floats(uint32_t value_width) { return uint64_t{kMaxQueries} * partial_floats(value_width); }

// A thread's own floats: for the router's choice; for attention over latents.
uint64_t route_scratch(const Route& op, uint64_t experts);
struct LatentScratch {
  uint64_t results = 0, folded = 0, attended = 0, product = 0, end = 0;  // offsets in floats
};
LatentScratch latent_scratch(uint32_t latent, const WeightShape& key, const WeightShape& value);

// Keys and values of the step's own rows as attention reads them, f32: for each head the keys of its tiles, then the
// values.
struct OwnPages {
  uint64_t heads = 0, tiles = 0;            // tiles of a head, at most
  uint64_t key_bytes = 0, value_bytes = 0;  // of a tile

  uint64_t keys_at(uint64_t head, uint64_t tile) const {
    return head * tiles * (key_bytes + value_bytes) + tile * key_bytes;
  }
  uint64_t values_at(uint64_t head, uint64_t tile) const { return keys_at(head, tiles) + tile * value_bytes; }
  uint64_t bytes() const { return keys_at(heads, 0); }
};
OwnPages own_pages(const Attention& op, const Program& program, uint64_t rows);

// Null: the CPU has no caches of such elements.
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
  Format cache_format() const;
  const CacheKernels& cache_kernels() const { return *cpu::cache_kernels(kernels(), cache_format()); }
  const Arena& arena() const { return arena_; }
  const Scratch& scratch() const { return scratch_; }
  uint32_t threads() const { return threads_; }
  const std::vector<StateLayout>& states() const { return states_; }
  const std::vector<Dispatch>& dispatches() const { return dispatches_; }
  const std::vector<Dispatch>& single_ops() const { return single_ops_; }  // the same without blocks
  // Weights that are kept as f32: factors of norms, scales and routers.
  const std::vector<bool>& is_factor() const { return is_factor_; }
  uint64_t cache_bytes() const { return cache_bytes_; }
  // Of all slots for experts; a weight of experts that lie in them.
  uint64_t slot_bytes() const { return request_.expert_slots.count * request_.expert_slots.bytes; }
  bool is_streamed(WeightId weight) const { return is_streamed_[weight]; }
  // The `experts` whose choice that op of the program makes, where they are streamed; or kNone.
  uint32_t experts_of_route(uint32_t op) const { return experts_of_route_[op]; }
  // The guess that op is of, or null.
  const ExpertGuess* guess(uint32_t op) const {
    return guess_of_[op] == kNone ? nullptr : &program().guesses[guess_of_[op]];
  }
  uint64_t activation_bytes() const;
  uint64_t mapped_bytes() const;  // of weights that are used where they lie, but for tables read by rows

  // Weights of products with 8-bit activations, in the order of their use, where the request wants them packed; what
  // they take, packed, and what of it a token reads.
  const std::vector<WeightId>& packed_weights() const { return packed_weights_; }
  uint64_t packed_bytes() const { return packed_bytes_; }
  uint64_t packed_bytes_of_token() const { return packed_bytes_of_token_; }

  // The kernel of a product with this weight and f32 activations; whether there is one for 8-bit activations to use.
  ProductKernel product_kernel(WeightId weight) const;
  bool takes_8bit(WeightId weight) const;

 private:
  void lay_out_states();
  void find_factors();
  void find_streamed();
  void find_packed();
  void size_scratch();
  void size_product(uint64_t rows, WeightId weight);
  void size_thread(uint64_t floats);
  void size_experts(const Experts& op);
  void size_adapters(const Dispatch& dispatch);
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
