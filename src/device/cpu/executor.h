// Plays the ops of a step on the pool's threads: one function an op, in the order of the catalogue (graph/op.h).
//
// Threads split rows, outputs, heads and queries, never a sum, so the number of threads changes no bit. A block is one
// dispatch: products of one input share a loop, and a gated MLP applies its activation in the loop of its products.
#pragma once

#include <span>
#include <vector>

#include "device/cpu/products.h"
#include "graph/seen.h"

namespace sluice::cpu {

class Executor {
 public:
  Executor(const CpuPlan& plan, Memory& memory, ThreadPool& pool)
      : plan_(plan),
        program_(plan.program()),
        kernels_(plan.kernels()),
        cache_(plan.cache_kernels()),
        memory_(memory),
        pool_(pool),
        products_(plan, memory, pool) {}

  void begin(const StepBuffer& step);
  void run(const Dispatch& dispatch);
  void run(uint32_t op) {
    std::visit([&](const auto& o) { run(o); }, program_.ops[op]);
  }

  // For streamed experts. choose_experts(): the experts that the rows of an op `experts` choose, ascending, once its
  // index is computed; the op then becomes chosen_for(), until it is done (kNone). missing_experts(): of those not
  // computed yet, the ones in no slot.
  std::vector<uint32_t> choose_experts(uint32_t op);
  uint32_t chosen_for() const { return chosen_for_; }
  std::vector<uint32_t> missing_experts() const;
  // choice_of(): the experts that the rows of a `route` have chosen, ascending. lacks_any(): whether one of them is in
  // no slot of the op `experts`.
  std::vector<uint32_t> choice_of(const Route& op) const;
  bool lacks_any(uint32_t experts, std::span<const uint32_t> chosen) const;
  // Computes with the experts that are in slots; true once all of them are computed.
  bool run_present(uint32_t op);

  // The rows of a value in this step, and the step's row of one of them.
  uint64_t rows(ValueId id) const;
  uint64_t step_row(ValueId id, uint64_t row) const;

 private:
  SLUICE_OP_OVERLOADS(run);
  // Makes product_list_ of linears that all have the same x.
  void list_linears(std::span<const Linear* const> linears);
  void run_qkv(const Block& block);
  void run_gated_mlp(const Block& block);
  void route_row(const Route& op, uint64_t row, float* scratch);
  const float* biased_scores(const Route& op, const float* logits, float* scores) const;

  // attention.cpp
  struct QueryBlock {
    uint64_t row = 0, rows = 0;    // rows of the value, all of one sequence
    uint32_t head = 0, heads = 0;  // heads that share a kv head
  };
  // One part of a long history for one block of queries.
  struct PartOfBlock {
    uint32_t block = 0, part = 0;
  };
  uint32_t history_parts(const Attention& op);
  struct RowRange {
    uint64_t first = 0, end = 0;
  };
  uint64_t attention_work(const Attention& op, const RowRange& of);
  void cut_queries(const Attention& op, uint32_t parts, const RowRange& of);
  void attend(const Attention& op, const QueryBlock& block, uint32_t thread);
  void attend_in_parts(const Attention& op);
  float* part_sums(uint64_t index, uint32_t value_width);  // of part `index` of a wave
  void merge_parts(const Attention& op, uint32_t block, std::span<const PartOfBlock> wave);
  uint32_t fill_queries(const Attention& op, const QueryBlock& block, Query* queries);
  Query query(const Attention& op, uint64_t row, uint32_t head);
  void attend_latents(const Attention& op, const QueryBlock& block, uint32_t thread);
  AttendArgs attend_args(const Attention& op, const QueryBlock& block) const;
  void attend_own_rows(const Attention& op);
  void lay_out_own_rows(const Attention& op, uint64_t row, const Seen& range);
  void lay_out_pairs(const Attention& op, const Seen& range, uint64_t index);
  const float* own_key(const Attention& op, uint64_t row, uint64_t key_row, uint32_t head, float* scratch);

  // Rows of one head to multiply by that head's matrix; strides in elements.
  struct HeadRows {
    uint32_t head = 0;
    const float* x = nullptr;
    uint64_t x_stride = 0;
    float* out = nullptr;
    uint64_t out_stride = 0;
    uint32_t rows = 0;
  };
  // out = W x, or out = transposed W x. `scratch`: product_scratch() floats.
  void multiply_head(WeightId weight, bool transposed, const HeadRows& rows, float* scratch);
  // Adds what the adapters of attention's rows from `first_row` on add to that. `scratch`: those of the thread.
  void add_head_adapter(const Attention& op, const AdapterOperand& adapter, bool transposed, const HeadRows& rows,
                        uint64_t first_row, const LatentScratch& at, float* scratch);
  uint32_t sequence_of(ValueId id, uint64_t row) const;

  // recurrent.cpp
  // Rows of one sequence that go from one slot to another.
  struct SlotRun {
    uint64_t first = 0, count = 0;  // rows of the step
    SlotArgs slots{};
  };
  // All slot runs of a sequence.
  struct SequenceRuns {
    uint64_t first = 0, count = 0;  // in slot_runs_
  };
  void find_slot_runs(const StateRef& state);
  void cut_into_runs(const StateRef& state, uint32_t sequence, uint64_t first, uint64_t count);
  float* slot(const StateRef& state, int32_t page);
  struct HeadParts {
    uint32_t first = 0, end = 0;  // of kDeltaColumns columns each
  };
  void delta_rule(const DeltaRule& op, const SlotRun& run, uint32_t head, HeadParts parts);

  // experts.cpp
  struct Chosen {
    uint32_t expert = 0;
    uint32_t row = 0;
    float weight = 0.0f;
  };
  struct ExpertRows {
    uint32_t expert = 0;
    uint64_t first = 0, count = 0;  // in chosen_
  };
  void group_by_expert(const Experts& op);
  void run_grouped(const Experts& op);
  void gather_rows(const Experts& op, const ExpertRows& range);
  Activations gather_all(const Experts& op);
  void multiply_inward(const Experts& op, const Activations& x, std::span<const ExpertRows> groups);
  void multiply_present(const Experts& op);
  void sum_experts(const Experts& op);
  void list_downward(const Experts& op, const Activations& inner, std::span<const ExpertRows> groups);
  void add_experts(const Experts& op, const Share& outputs);

  // adapters.cpp
  struct AdapterRun {
    uint32_t matrix = 0;  // of both factors
    uint64_t first = 0, count = 0;
  };
  // The rows of a product that an adapter is for, by row of `x` and `out`.
  struct AdaptedRows {
    const float* x = nullptr;
    uint64_t rows = 0;
    float* out = nullptr;
    float *inner = nullptr, *scales = nullptr;  // room for results of the first product and for the rows' scales
  };
  // Gives these products what the adapters of their linears, which all have the same x, add to them.
  void list_adapters(std::span<const Linear* const> linears, std::span<Product> products);
  void find_adapter_runs(const Linear& op, float* scales);
  void add_adapter(const Embed& op, uint64_t row);
  // Finds the runs of these groups' rows in chosen_.
  void find_adapter_runs(const Experts& op, std::span<const ExpertRows> groups);
  // What an adapter adds to the rows of adapter_runs_ goes to additions_, the first products to products_.
  void begin_adapters();
  void list_adapter(const AdapterOperand& adapter, const AdaptedRows& rows);
  // Takes the first ones of `from`, those whose scales lie before `scales`.
  static std::span<const Addition> take_additions(std::span<const Addition>& from, const float* scales);

  // backward_rows.cpp
  void route_row_backward(const RouteBackward& op, uint64_t row);

  // backward_products.cpp
  // Rows to multiply by the transposed matrix of an expert; strides in floats. Those of several groups lie one behind
  // the other.
  struct TransposedRows {
    uint32_t expert = 0;
    const float* x = nullptr;
    uint64_t x_stride = 0;
    float* out = nullptr;
    uint64_t out_stride = 0;
    uint64_t count = 0;
    const std::byte* quantised = nullptr;  // the same rows in 8-bit blocks, if the weight takes them
  };
  // Columns of some rows, which a thread computes.
  struct TransposedPart {
    TransposedRows rows;
    uint64_t first = 0;  // column
  };
  void decode_part(WeightId weight, uint32_t expert, uint64_t row, uint64_t first, uint64_t n, float* to);
  void add_transposed(WeightId weight, const TransposedRows& rows, uint64_t first, uint32_t thread);
  void add_transposed_8bit(WeightId weight, const TransposedRows& rows, uint64_t first, uint32_t thread);
  void multiply_transposed(WeightId weight, std::span<const TransposedRows> groups, bool in_8bit);
  void cut_transposed(const WeightShape& shape, std::span<const TransposedRows> groups);
  void group_choices(ValueId index, uint32_t experts, uint64_t choices);
  void gather_choices(ValueId x, uint64_t choices_a_row, float* to);
  void scatter_choices(const float* from, ValueId out);
  void lose_block(const CrossEntropy& op, uint64_t first, uint64_t count);
  void lose_row(const CrossEntropy& op, uint64_t row, float* y);
  void lose_adapter(const CrossEntropy& op, uint64_t first, uint64_t count);

  // backward_sequences.cpp
  struct HeadOf {
    ValueId value = kNone;
    uint32_t head = 0;
  };
  // Queries of a head that meet keys of one sequence.
  struct ScoreBlock {
    uint64_t row = 0, rows = 0;
    uint32_t head = 0, kv_head = 0;
    RowRange sequence{};
    uint64_t key = 0, keys = 0;
  };
  void find_sequences();
  void cut_backward(const AttentionBackward& op);
  void meet(const ScoreBlock& block, const HeadOf& x, const HeadOf& y, float* scores, float* scratch);
  void make_scores(const AttentionBackward& op, const ScoreBlock& block, float* scores, float* scratch);
  bool any_sees(const ScoreBlock& block) const;
  template <class Body>
  void each_seen(const ScoreBlock& block, const Body& body);
  void turn_scores(const AttentionBackward& op, const ScoreBlock& block, float* scores, float* d_scores);
  QuerySums& query_sums(const AttentionBackward& op, uint64_t row, uint32_t head);
  void query_gradients(const AttentionBackward& op, ScoreBlock block, uint32_t thread);
  void add_to_sums(const AttentionBackward& op, const ScoreBlock& block, const float* scores, const float* d_scores);
  void key_gradients(const AttentionBackward& op, const ScoreBlock& keys, uint32_t thread);
  void add_columns(const float* scores, const ScoreBlock& block, const HeadOf& of, const HeadOf& to);
  void conv_gradients(const ShortConvBackward& op, const RowRange& run, uint64_t first, uint64_t end);
  struct DeltaRow {
    const float *before = nullptr, *after = nullptr;  // the state
    const float* error = nullptr;
    float* d_state = nullptr;
  };
  void delta_gradients(const DeltaRuleBackward& op, const RowRange& run, uint32_t head, float* scratch);
  void delta_step(const DeltaRuleBackward& op, uint64_t row, uint32_t head, const float* before, float* after,
                  float* error);
  void delta_step_back(const DeltaRuleBackward& op, uint64_t row, uint32_t head, const DeltaRow& at);

  // Calls body(first, n) for parts of the elements of a value; `cost` of one element in element operations.
  template <class Body>
  void each_element(ValueId id, uint64_t cost, const Body& body) {
    share_out(pool_, rows(id) * columns(id), cost,
              [&](const Share& share) { body(share.first, share.last - share.first); });
  }
  // Calls body(row) for the rows of a value.
  template <class Body>
  void each_row(ValueId id, const Body& body) {
    share_out(pool_, rows(id), columns(id), [&](const Share& share) {
      for (uint64_t row = share.first; row < share.last; ++row) body(row);
    });
  }

  const ValueType& type(ValueId id) const { return program_.values[id].type; }
  uint64_t columns(ValueId id) const { return type(id).columns(); }
  const float* reals(ValueId id, uint64_t row = 0) const { return memory_.read<float>(id) + row * columns(id); }
  const int32_t* integers(ValueId id, uint64_t row = 0) const { return memory_.read<int32_t>(id) + row * columns(id); }
  float* result(ValueId id, uint64_t row = 0) { return memory_.write<float>(id) + row * columns(id); }
  int32_t* integer_result(ValueId id, uint64_t row) { return memory_.write<int32_t>(id) + row * columns(id); }

  const CpuPlan& plan_;
  const Program& program_;
  const Kernels& kernels_;
  const CacheKernels& cache_;
  Memory& memory_;
  ThreadPool& pool_;
  Products products_;
  const StepBuffer* step_ = nullptr;
  // Lists of one op, kept for their memory.
  std::vector<Product> product_list_;
  std::vector<Addition> additions_;
  std::vector<GatedProduct> gated_list_;
  std::vector<AdapterRun> adapter_runs_;
  std::vector<QueryBlock> query_blocks_;
  std::vector<int32_t> own_tiles_;  // page table of own rows that are laid out
  uint32_t own_first_tile_ = 0;     // its first tile
  std::vector<SlotRun> slot_runs_;
  std::vector<SequenceRuns> sequence_runs_;
  std::vector<PartOfBlock> parts_;
  std::vector<Chosen> chosen_;
  std::vector<ExpertRows> expert_rows_;
  std::vector<TransposedPart> transposed_parts_;
  std::vector<RowRange> sequence_rows_;
  std::vector<RowRange> seen_rows_;  // by query: rows of keys
  std::vector<ScoreBlock> query_parts_, key_parts_;
  uint32_t chosen_for_ = kNone;
  std::vector<ExpertRows> to_come_;  // of chosen_for_: groups that are not computed yet
  std::vector<ExpertRows> present_;  // of them: groups whose expert is in a slot
};

}  // namespace sluice::cpu
