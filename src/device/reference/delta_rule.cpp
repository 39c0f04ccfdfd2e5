#include "device/reference/delta_rule.h"

#include <cmath>

namespace sluice::reference {

template <class Real>
void delta_recurrent(const DeltaHead<Real>& head) {
  const uint32_t keys = head.key_width, values = head.value_width;
  for (uint64_t t = 0; t < head.rows; ++t) {
    const Real* q = head.q + t * keys;
    const Real* k = head.k + t * keys;
    const Real factor = std::exp(head.decay[t]);
    for (uint32_t j = 0; j < values; ++j) {
      Real* s = head.state + j;  // column j
      Real predicted = 0;
      for (uint32_t i = 0; i < keys; ++i) predicted += (s[i * values] *= factor) * k[i];
      const Real error = head.beta[t] * (head.v[t * values + j] - predicted);
      Real sum = 0;
      for (uint32_t i = 0; i < keys; ++i) sum += (s[i * values] += k[i] * error) * q[i];
      head.out[t * values + j] = sum * head.scale;
    }
  }
}

template void delta_recurrent(const DeltaHead<float>& head);
template void delta_recurrent(const DeltaHead<double>& head);

}  // namespace sluice::reference
