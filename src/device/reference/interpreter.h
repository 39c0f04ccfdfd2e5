// What each op means: one function an op, in the order of the catalogue (graph/op.h).
//
// Tables are row-major, [row][head][element]; a sum runs in ascending order of its index. Real is float for users and
// double for the parity suite's oracle.
#pragma once

#include <span>
#include <vector>

#include "device/reference/pages.h"
#include "device/reference/tables.h"
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
  void run(const Embed& op);
  void run(const Linear& op);
  void run(const RmsNorm& op);
  void run(const Add& op);
  void run(const Mul& op);
  void run(const Scale& op);
  void run(const Softcap& op);
  void run(const Activation& op);
  void run(const GatedActivation& op);
  void run(const Rope& op);
  void run(const Append& op);
  void run(const Attention& op);
  void run(const Route& op);
  void run(const Experts& op);
  void run(const Gather& op);
  void run(const Slice& op);
  void run(const Sample& op);

  void attend(const Attention& op, uint64_t r, uint32_t h, int32_t first, int32_t last);
  struct Chosen {
    uint64_t row = 0;
    Real weight = 0;
  };
  std::vector<Chosen> rows_of_expert(const Experts& op, uint32_t expert);
  void add_expert(const Experts& op, uint32_t expert, const std::vector<Chosen>& chosen);

  uint64_t rows(ValueId id) const { return rows(id, *step_); }
  uint64_t step_row(ValueId id, uint64_t row) const { return step_row(id, row, *step_); }
  Real* reals(ValueId id, uint64_t row) { return tables_.reals(id, row); }
  const int32_t* integers(ValueId id, uint64_t row) { return tables_.integers(id, row); }
  const ValueType& type(ValueId id) const { return program_.values[id].type; }

  // A row of a weight, decoded.
  std::vector<float> weight_row(WeightId id, uint64_t row, uint64_t expert = 0) const;
  std::vector<float> factors(WeightId id, uint64_t count) const;  // row 0; ones for no weight
  // f(x) for every element of a value.
  template <class F>
  void each_element(ValueId x, ValueId out, F f);

  const Program& program_;
  const std::vector<TensorSource>& weights_;
  Tables<Real>& tables_;
  Pages<Real>& pages_;
  const StepBuffer* step_ = nullptr;
};

// sample.cpp: one row.
SampleResult sample_row(std::span<const double> logits, const SampleRow& row, std::span<const Adjustment> adjustments,
                        uint32_t position);
SampleResult sample_row(std::span<const float> logits, const SampleRow& row, std::span<const Adjustment> adjustments,
                        uint32_t position);

extern template class Interpreter<float>;
extern template class Interpreter<double>;

}  // namespace sluice::reference
