// The values of a step as tables. Reals lie in one block of memory laid out by the arena packer, the program's inputs
// behind it; integers, which are few, each in a table of their own.
#pragma once

#include <algorithm>
#include <vector>

#include "graph/arena.h"

namespace sluice::reference {

template <class Real>
class Tables {
 public:
  Tables(const Program& program, const StepMaxima& maxima, bool traced);

  uint64_t bytes() const { return real_count_ * sizeof(Real) + integer_count_ * sizeof(int32_t); }
  void allocate();
  void load(const StepBuffer& step);  // the program's inputs

  // A row of a value of that element type.
  Real* reals(ValueId id, uint64_t row) { return reals_.data() + offsets_[id] + row * columns(id); }
  int32_t* integers(ValueId id, uint64_t row) { return integers_.data() + offsets_[id] + row * columns(id); }
  uint64_t columns(ValueId id) const { return program_->values[id].type.columns(); }

 private:
  bool is_integer(ValueId id) const { return program_->values[id].type.element == Element::i32; }

  const Program* program_;
  std::vector<uint64_t> offsets_;  // in elements
  uint64_t real_count_ = 0, integer_count_ = 0;
  std::vector<Real> reals_;
  std::vector<int32_t> integers_;
};

template <class Real>
Tables<Real>::Tables(const Program& program, const StepMaxima& maxima, bool traced)
    : program_(&program), offsets_(program.values.size()) {
  const Arena arena = pack_arena(program, maxima, traced);
  real_count_ = arena.bytes / 4;
  for (ValueId id = 0; id < program.values.size(); ++id) {
    const uint64_t elements = value_bytes(program, maxima, id) / 4;
    const bool is_view = program.values[id].storage != id;
    if (is_view) {
      offsets_[id] = offsets_[program.values[id].storage];
    } else if (is_integer(id)) {
      offsets_[id] = integer_count_;
      integer_count_ += elements;
    } else if (arena.offsets[id] == Arena::kNowhere) {
      offsets_[id] = real_count_;
      real_count_ += elements;
    } else {
      offsets_[id] = arena.offsets[id] / 4;
    }
  }
}

template <class Real>
void Tables<Real>::allocate() {
  reals_.resize(real_count_);
  integers_.resize(integer_count_);
}

template <class Real>
void Tables<Real>::load(const StepBuffer& step) {
  for (uint32_t i = 0; i < program_->inputs.size(); ++i) {
    const ValueId id = program_->inputs[i].value;
    if (is_integer(id)) {
      const std::span<const int32_t> from = step.input_i32(i);
      std::copy(from.begin(), from.end(), integers(id, 0));
    } else {
      const std::span<const float> from = step.input_f32(i);
      std::copy(from.begin(), from.end(), reals(id, 0));
    }
  }
}

}  // namespace sluice::reference
