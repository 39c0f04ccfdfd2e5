// What each op means: one function an op, in the order of the catalogue (graph/op.h).
//
// Tables are row-major, [row][head][element]; a sum runs in ascending order of its index. Real is float for users and
// double for the parity suite's oracle.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "device/reference/pages.h"
#include "device/reference/tables.h"
#include "graph/seen.h"
#include "graph/weights.h"

namespace sluice::reference {

template <class Real>
class Interpreter {
 public:
  Interpreter(const Program& program, const std::vector<TensorSource>& weights, Tables<Real>& tables,
              Pages<Real>& pages)
      : program_(program), weights_(weights), tables_(tables), pages_(pages) {}

  void run(const Op& op, const StepBuffer& step) {
    step_ = &step;
    std::visit([&](const auto& o) { run(o); }, op);
  }

  // Rows of a value in this step, and the row of the step that a row of it stands for.
  uint64_t rows(ValueId id, const StepBuffer& step) const;
  uint64_t step_row(ValueId id, uint64_t row, const StepBuffer& step) const;

 private:
  SLUICE_OP_OVERLOADS(run);

  // Keys and values of one head, as graph/seen.h counts them; those that lie nowhere else are in `expanded`.
  struct HeadCache {
    std::vector<const Real*> keys, values;
    std::vector<Real> expanded;
  };
  void add_relative(const Attention& op, uint32_t kv_head, uint64_t row, const Seen& range, HeadCache& cache);
  bool meet_same_keys(const Attention& op, uint64_t a, uint64_t b);
  HeadCache head_cache(const Attention& op, uint32_t h, uint64_t row, const Seen& range);
  void attend(const Attention& op, uint64_t r, uint32_t h, const HeadCache& cache, const Seen& range);
  // A head's matrices, decoded.
  struct HeadMatrices {
    std::vector<std::vector<float>> key, value;
  };
  HeadMatrices head_matrices(const Expansion& weights, uint32_t h) const;
  static void expand(const HeadMatrices& matrices, bool key_transposed, std::span<const Real> latent,
                     std::span<const Real> shared, Real* key, Real* value);
  static std::vector<int32_t> best(std::span<const Real> scores, uint32_t count);
  std::vector<Real> choice_scores(const Route& op, const Real* logits) const;
  static std::vector<int32_t> allowed_experts(const Route& op, const std::vector<Real>& scores);
  struct Chosen {
    uint64_t row = 0;
    Real weight = 0;
  };
  // Rows [first, end) of a sequence of the step, which go from one table of a slot state to another.
  struct Run {
    uint64_t first = 0, end = 0;
    const Real* before = nullptr;  // zeros
    Real* after = nullptr;
  };
  std::vector<Run> runs(const StateRef& state);
  void delta_head(const DeltaRule& op, const Run& run, uint32_t head, Real* state);
  void add_adapter(const Embed& op);
  void add_adapter(const AdapterOperand& adapter, ValueId x, ValueId out);
  // What the transposed matrix of an adapter adds to its product of `x`; likewise.
  std::vector<Real> adapted_transposed(const AdapterOperand& adapter, uint64_t row, uint32_t expert, uint32_t experts,
                                       const Real* x);
  // What the adapter of an expert adds to its product of `x`, the row `row` of the step; empty: nothing.
  std::vector<Real> adapted(const AdapterOperand& adapter, uint64_t row, uint32_t expert, uint32_t experts,
                            const Real* x);
  std::vector<Chosen> rows_of_expert(const Experts& op, uint32_t expert);
  void add_expert(const Experts& op, uint32_t expert, const std::vector<Chosen>& chosen);

  // backward.cpp
  struct Choice {
    uint64_t row = 0;  // that chooses
    uint64_t expert = 0;
  };
  Choice choice(ValueId index, uint32_t experts, uint64_t row);
  void attend_backward(const AttentionBackward& op, uint64_t r, uint32_t h, const Seen& range);
  struct SequenceRows {
    uint64_t first = 0, end = 0;  // of the step
  };
  std::vector<SequenceRows> sequences() const;
  void delta_head_backward(const DeltaRuleBackward& op, const SequenceRows& run, uint32_t head);

  uint64_t rows(ValueId id) const { return rows(id, *step_); }
  uint64_t step_row(ValueId id, uint64_t row) const { return step_row(id, row, *step_); }
  Real* reals(ValueId id, uint64_t row) { return tables_.reals(id, row); }
  const int32_t* integers(ValueId id, uint64_t row) { return tables_.integers(id, row); }
  const ValueType& type(ValueId id) const { return program_.values[id].type; }

  // A row of a weight, decoded.
  std::vector<float> weight_row(WeightId id, uint64_t row, uint64_t expert = 0) const {
    const TensorSource& source = weights_[id];
    std::vector<float> decoded(source.shape.columns);
    decode_weight_row(source, static_cast<uint32_t>(expert), static_cast<uint32_t>(row), decoded.data());
    return decoded;
  }
  // Row 0; ones for no weight.
  std::vector<float> factors(WeightId id, uint64_t count) const {
    return id == kNone ? std::vector<float>(count, 1.0f) : weight_row(id, 0);
  }
  // f(x) for every element of a value.
  template <class F>
  void each_element(ValueId x, ValueId out, F f) {
    const Real* from = reals(x, 0);
    std::transform(from, from + rows(x) * type(x).columns(), reals(out, 0), f);
  }

  const Program& program_;
  const std::vector<TensorSource>& weights_;
  Tables<Real>& tables_;
  Pages<Real>& pages_;
  const StepBuffer* step_ = nullptr;
};

// sample.cpp: one row.
SampleResult sample_row(std::span<const double> logits, const SampleRow& row, std::span<const Adjustment> adjustments,
                        std::span<const uint32_t> mask, uint32_t position);
SampleResult sample_row(std::span<const float> logits, const SampleRow& row, std::span<const Adjustment> adjustments,
                        std::span<const uint32_t> mask, uint32_t position);

}  // namespace sluice::reference
