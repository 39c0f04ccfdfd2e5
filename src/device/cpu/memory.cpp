#include "device/cpu/memory.h"

#include <algorithm>

#include "device/placing.h"
#include "format/format.h"
#include "graph/op_check.h"

namespace sluice::cpu {

Result<Memory> Memory::take(const CpuPlan& plan, const WeightSource& weights, Budget& budget) {
  Memory memory;
  memory.plan_ = &plan;
  TRY(memory.weights_, find_planned(plan.request(), weights));
  TRY(memory.reservations_, reserve_planned(budget, plan.memory()));
  TRY(memory.activations_, LargeBuffer::take(plan.activation_bytes(), "activations"));
  TRY(memory.cache_, LargeBuffer::take(plan.cache_bytes(), "keys and values"));
  TRY(memory.slots_, LargeBuffer::take(plan.slot_bytes(), "experts", kSlotAlignment));
  memory.empty_slots();
  TRY(memory.packed_, PackedWeights::take(plan, memory.weights_));
  memory.decode_factors();
  memory.place_activations();
  return memory;
}

// Streamed weights begin without experts in memory.
void Memory::empty_slots() {
  pieces_.resize(weights_.size());
  for (WeightId id = 0; id < weights_.size(); ++id) {
    if (!plan_->is_streamed(id)) continue;
    TensorSource& weight = weights_[id];
    pieces_[id] = expert_pieces(weight);
    for (const ExpertPiece& piece : pieces_[id]) piece_places(weight, piece).assign(weight.shape.experts, nullptr);
  }
}

std::span<std::byte> Memory::slot(uint32_t index) const {
  const ExpertSlots& slots = plan_->request().expert_slots;
  CHECK(index < slots.count);
  return {slots_.data() + index * slots.bytes, static_cast<size_t>(slots.bytes)};
}

void Memory::place_expert(WeightId id, uint32_t expert, std::span<const std::byte* const> pieces) {
  CHECK(pieces.size() == pieces_[id].size() && expert < weights_[id].shape.experts);
  for (size_t i = 0; i < pieces.size(); ++i) piece_places(weights_[id], pieces_[id][i])[expert] = pieces[i];
}

void Memory::forget_expert(WeightId id, uint32_t expert) {
  for (const ExpertPiece& piece : pieces_[id]) piece_places(weights_[id], piece)[expert] = nullptr;
}

void Memory::decode_factors() {
  factors_.resize(weights_.size());
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (!plan_->is_factor()[i]) continue;
    const TensorSource& weight = weights_[i];
    const size_t columns = weight.shape.columns;
    factors_[i].resize(weight.shape.rows * columns);
    for (uint32_t row = 0; row < weight.shape.rows; ++row)
      decode_weight_row(weight, 0, row, factors_[i].data() + row * columns);
  }
}

AffineRows affine_rows(const TensorSource& source, uint32_t expert) {
  using enum Format;
  static constexpr Format kElements[] = {u2, u3, u4, u5, u6, u8};
  const std::vector<WeightPart>& parts = source.parts;
  if (std::ranges::find(kElements, source.format) == std::end(kElements) || parts.size() != 2) return {};
  const WeightPart &factor = parts[0], &offset = parts[1];
  const uint32_t group = factor.block_columns;
  if (factor.role != PartRole::factor || offset.role != PartRole::offset || factor.block_rows != 1 ||
      offset.block_rows != 1 || offset.block_columns != group || group % 16 != 0 || source.shape.columns % group != 0)
    return {};
  return {.elements = source.format,
          .factor_format = factor.format,
          .offset_format = offset.format,
          .group = group,
          .factors = factor.row(expert, 0),
          .offsets = offset.row(expert, 0),
          .factor_stride = factor.row_stride,
          .offset_stride = offset.row_stride};
}

ProductArgs Memory::matrix(WeightId id, uint32_t expert) const {
  const TensorSource& source = weights_[id];
  return {.weight = source.row(expert, 0),
          .weight_stride = source.row_stride,
          .columns = source.shape.columns,
          .affine = affine_rows(source, expert),
          .source = &source,
          .expert = expert};
}

void Memory::decode(WeightId id, uint32_t expert, uint32_t row, float* out, float factor) const {
  const TensorSource& source = weights_[id];
  const Kernels& kernels = plan_->kernels();
  if (source.parts.empty())
    return kernels.formats[static_cast<int>(source.format)].decode(source.row(expert, row), out, source.shape.columns,
                                                                   factor);
  decode_weight_row(source, expert, row, out);
  if (factor != 1.0f) kernels.scale(out, factor, out, source.shape.columns);
}

void Memory::decode_once(WeightId id, uint32_t row, float* out, float factor) const {
  const TensorSource& source = weights_[id];
  if (!source.parts.empty()) return decode(id, 0, row, out, factor);
  std::vector<std::byte> room;
  plan_->kernels().formats[static_cast<int>(source.format)].decode(
      source.row(0, row).fetch(row_bytes(source.format, source.shape.columns), room), out, source.shape.columns,
      factor);
}

void Memory::place_activations() {
  std::byte* at = activations_.data();
  const auto next = [&](uint64_t bytes) { return std::exchange(at, at + (bytes + 63) / 64 * 64); };
  const Scratch& scratch = plan_->scratch();
  arena_ = next(plan_->arena().bytes);
  quantised_ = next(scratch.quantised);
  bf16_ = next(scratch.bf16);
  expert_rows_ = next(scratch.expert_rows);
  expert_gate_ = next(scratch.expert_gate);
  expert_up_ = next(scratch.expert_up);
  own_pages_ = next(scratch.own_pages);
  adapter_inner_ = next(scratch.adapter_inner);
  adapter_scales_ = next(scratch.adapter_scales);
  part_sums_ = next(scratch.part_sums);
  loss_logits_ = next(scratch.loss_logits);
  attention_sums_ = next(scratch.attention_sums);
  thread_ = next(plan_->threads() * scratch.thread);
  sample_thread_ = next(plan_->threads() * scratch.sample_thread);

  const Program& program = plan_->program();
  values_.resize(program.values.size());
  for (ValueId id = 0; id < values_.size(); ++id) {
    if (const uint64_t offset = plan_->arena().offsets[id]; offset != Arena::kNowhere) values_[id] = arena_ + offset;
    for (uint32_t input = 0; input < program.inputs.size(); ++input)
      if (program.inputs[input].value == program.values[id].storage) inputs_.push_back({id, input});
  }
}

void Memory::begin(const StepBuffer& step) {
  for (const InputValue& in : inputs_) {
    const bool integers = plan_->program().values[in.value].type.element == Element::i32;
    values_[in.value] = reinterpret_cast<const std::byte*>(
        integers ? static_cast<const void*>(step.input_i32(in.input).data()) : step.input_f32(in.input).data());
  }
}

std::byte* Memory::keys(uint32_t state, uint64_t page, uint32_t head) const {
  const StateLayout& layout = plan_->states()[state];
  return cache_.data() + layout.keys + page * layout.key_page_bytes + head * layout.key_head_bytes;
}
std::byte* Memory::values(uint32_t state, uint64_t page, uint32_t head) const {
  const StateLayout& layout = plan_->states()[state];
  return cache_.data() + layout.values + page * layout.value_page_bytes + head * layout.value_head_bytes;
}

}  // namespace sluice::cpu
