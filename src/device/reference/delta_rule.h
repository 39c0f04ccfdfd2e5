// The gated delta rule of one value head (graph/ops/recurrent.h).
#pragma once

#include <cstdint>

namespace sluice::reference {

template <class Real>
struct DeltaHead {
  uint64_t rows = 0;
  uint32_t key_width = 0, value_width = 0;
  const Real* q = nullptr;  // [rows][key width]
  const Real* k = nullptr;
  const Real* v = nullptr;      // [rows][value width]
  const Real* decay = nullptr;  // [rows], logarithms
  const Real* beta = nullptr;
  Real scale = 1;
  Real* state = nullptr;  // [key width][value width]
  Real* out = nullptr;    // [rows][value width]
};

// Row by row.
template <class Real>
void delta_recurrent(const DeltaHead<Real>& head);

extern template void delta_recurrent(const DeltaHead<float>& head);
extern template void delta_recurrent(const DeltaHead<double>& head);

}  // namespace sluice::reference
