// Weights as programs and devices see them: a canonical name, a shape, and where the elements lie.
//
// A family's weight table binds canonical names to tensors of a checkpoint; a device asks a WeightSource by canonical
// name and never learns which file or dialect they came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "format/format.h"

namespace sluice {

// `experts` matrices of [rows, columns]; a vector is one row. y = W x maps `columns` inputs to `rows` outputs.
struct WeightShape {
  uint32_t experts = 1;
  uint32_t rows = 1;
  uint32_t columns = 0;
  bool operator==(const WeightShape&) const = default;
};

// What a program says of a weight.
struct WeightDecl {
  std::string name{};  // canonical: "layer.3.q_proj"
  WeightShape shape{};
};

// Where a weight lies: rows of `format` at bytes + expert * expert_stride + row * row_stride. `bytes` may be unaligned.
// A weight that is a slice of a stored tensor (gate of a fused gate_up) has strides larger than its own rows.
struct TensorSource {
  WeightShape shape{};
  Format format{};
  const std::byte* bytes = nullptr;
  uint64_t expert_stride = 0;
  uint64_t row_stride = 0;
  std::shared_ptr<const void> owner;  // keeps `bytes` alive: a mapping, or a small tensor transformed at load
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The weight of that canonical name; not_found when the model has none.
  virtual Result<TensorSource> find(const std::string& name) const = 0;
};

}  // namespace sluice
