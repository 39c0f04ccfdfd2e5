// What every operator says about itself, beside its fields; docs/operators.md and the parity suite derive from it.
//
// An op is a plain struct with
//   kDoc                       the sheet below
//   operands(visitor)          calls visitor.input / weight / reads / writes / output(name, field, what it is)
//   result(program)            the type of `out`, from its operands (ops with one output)
//   check(program)             operands, parameters and outputs fit together
//   cases()                    its cases of the parity suite (graph/cases.h)
#pragma once

#include <string_view>

namespace sluice {

// Largest difference from the f64 reference that passes, as a share of the larger of the row's largest magnitude and
// the root mean square of the whole result.
struct Tolerance {
  float exact = 0.0f;      // Arithmetic::exact
  float fast = 0.0f;       // Arithmetic::fast, weights f32, f16 or bf16
  float fast_8bit = 0.0f;  // Arithmetic::fast, quantised weights: activations in 8-bit blocks
};

struct OpDoc {
  std::string_view name;
  std::string_view formula;  // one line a step
  std::string_view source;
  Tolerance tolerance;
  std::string_view reason;  // of the tolerance
};

}  // namespace sluice
