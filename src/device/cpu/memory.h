// The memory of a runner, laid out by the plan: activations, scratch, caches, weights.
#pragma once

#include <span>
#include <vector>

#include "base/budget.h"
#include "base/large_buffer.h"
#include "device/cpu/packed_weights.h"
#include "device/cpu/plan.h"

namespace sluice::cpu {

// The factors and offsets of an expert's rows, as kernels take them.
AffineRows affine_rows(const TensorSource& source, uint32_t expert);

class Memory {
 public:
  // Reserves the plan's memory, finds the weights and decodes factors. The plan outlives it.
  static Result<Memory> take(const CpuPlan& plan, const WeightSource& weights, Budget& budget);

  // Points the program's inputs at the step's buffer. Must be called before the step's ops run.
  void begin(const StepBuffer& step);

  template <class T>
  const T* read(ValueId id) const {
    return reinterpret_cast<const T*>(values_[id]);
  }
  // A value that an op writes.
  template <class T>
  T* write(ValueId id) {
    return reinterpret_cast<T*>(arena_ + plan_->arena().offsets[id]);
  }

  const TensorSource& weight(WeightId id) const { return weights_[id]; }
  ProductKernel product_kernel(WeightId id) const { return plan_->product_kernel(id); }
  PackedWeights& packed() { return packed_; }
  const PackedWeights& packed() const { return packed_; }
  // One expert's stored matrix for a product. The caller adds activations and results.
  ProductArgs matrix(WeightId id, uint32_t expert) const;
  // out = a row of the matrix * factor
  void decode(WeightId id, uint32_t expert, uint32_t row, float* out, float factor) const;
  // The same of a matrix of rows that are wanted once: they are read where they lie in a file.
  void decode_once(WeightId id, uint32_t row, float* out, float factor) const;
  // A factor decoded to f32, row after row; null for no weight.
  const float* factors(WeightId id) const { return id == kNone ? nullptr : factors_[id].data(); }

  // Slots of streamed experts. place_expert() says where an expert's pieces lie, in the order of pieces(id); that list
  // is empty for a weight that is not streamed.
  std::span<std::byte> slot(uint32_t index) const;
  void place_expert(WeightId id, uint32_t expert, std::span<const std::byte* const> pieces);
  void forget_expert(WeightId id, uint32_t expert);
  const std::vector<ExpertPiece>& pieces(WeightId id) const { return pieces_[id]; }
  bool has_expert(WeightId id, uint32_t expert) const {
    return pieces_[id].empty() || weights_[id].experts[expert] != nullptr;
  }

  std::byte* quantised() const { return quantised_; }
  std::byte* bf16() const { return bf16_; }
  float* expert_rows() const { return reinterpret_cast<float*>(expert_rows_); }
  float* expert_gate() const { return reinterpret_cast<float*>(expert_gate_); }
  float* expert_up() const { return reinterpret_cast<float*>(expert_up_); }
  std::byte* own_pages() const { return own_pages_; }
  float* adapter_inner() const { return reinterpret_cast<float*>(adapter_inner_); }
  float* adapter_scales() const { return reinterpret_cast<float*>(adapter_scales_); }
  float* part_sums() const { return reinterpret_cast<float*>(part_sums_); }
  float* loss_logits() const { return reinterpret_cast<float*>(loss_logits_); }
  std::byte* attention_sums() const { return attention_sums_; }
  float* thread(uint32_t index) const { return reinterpret_cast<float*>(thread_ + index * plan_->scratch().thread); }
  float* sample_thread(uint32_t index) const {
    return reinterpret_cast<float*>(sample_thread_ + index * plan_->scratch().sample_thread);
  }

  uint32_t pages(uint32_t group) const { return plan_->request().pages[group]; }
  float* slot(uint32_t state, uint64_t slot) const { return reinterpret_cast<float*>(keys(state, slot, 0)); }
  const StateLayout& state(uint32_t index) const { return plan_->states()[index]; }
  std::byte* keys(uint32_t state, uint64_t page, uint32_t head) const;
  std::byte* values(uint32_t state, uint64_t page, uint32_t head) const;
  // The pieces of a page, in the order in which they leave and enter: keys, then values, of each state of the group.
  template <class Piece>
  void for_each_piece(uint32_t group, uint32_t page, const Piece& piece) const {
    const Program& program = plan_->program();
    CHECK(group < program.groups.size() && page < pages(group));
    for (uint32_t state = 0; state < program.states.size(); ++state) {
      if (program.states[state].group != group) continue;
      piece(std::span<std::byte>(keys(state, page, 0), plan_->states()[state].key_page_bytes));
      piece(std::span<std::byte>(values(state, page, 0), plan_->states()[state].value_page_bytes));
    }
  }

 private:
  void decode_factors();
  void empty_slots();
  void place_activations();

  const CpuPlan* plan_ = nullptr;
  std::vector<Reservation> reservations_;
  LargeBuffer activations_, cache_, slots_;
  std::byte *arena_ = nullptr, *quantised_ = nullptr, *bf16_ = nullptr, *expert_rows_ = nullptr,
            *expert_gate_ = nullptr;
  std::byte *expert_up_ = nullptr, *own_pages_ = nullptr, *part_sums_ = nullptr, *thread_ = nullptr,
            *sample_thread_ = nullptr;
  std::byte *adapter_inner_ = nullptr, *adapter_scales_ = nullptr, *loss_logits_ = nullptr, *attention_sums_ = nullptr;
  std::vector<const std::byte*> values_;  // by value
  std::vector<TensorSource> weights_;
  PackedWeights packed_;
  std::vector<std::vector<ExpertPiece>> pieces_;  // by weight
  std::vector<std::vector<float>> factors_;       // by weight

  // A value in the step buffer: an input of the program or a view of one.
  struct InputValue {
    ValueId value = kNone;
    uint32_t input = 0;
  };
  std::vector<InputValue> inputs_;
};

}  // namespace sluice::cpu
