#include "device/embedding_adapter.h"

#include <vector>

#include "base/check.h"

namespace sluice {

void add_embedding_adapter(const TensorSource& a, const TensorSource& b, uint32_t slot, uint32_t token, float factor,
                           std::span<float> row) {
  CHECK(slot < a.shape.experts && token < a.shape.rows && row.size() == b.shape.rows);
  std::vector<float> inner(a.shape.columns), line(b.shape.columns);
  decode_weight_row(a, slot, token, inner.data());
  for (uint32_t i = 0; i < row.size(); ++i) {
    decode_weight_row(b, slot, i, line.data());
    float sum = 0;
    for (size_t k = 0; k < inner.size(); ++k) sum += line[k] * inner[k];
    row[i] += factor * sum;
  }
}

}  // namespace sluice
