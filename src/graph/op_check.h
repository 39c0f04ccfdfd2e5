// The sentences of shape checks. An op looks its operands up through an OpCheck, states what it wants of them, and
// returns the first mismatch: "linear: x is f32 [rows, 64]: want 32 columns as weight layer.3.q_proj".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/program.h"

namespace sluice {

std::string describe(const ValueType& type);     // "f32 [rows, 4, 64]"; one head is left out
std::string describe(const WeightShape& shape);  // "[512, 64]", "8 x [512, 64]"

// Types of operands; an id the program does not have gives an f32 of one column, or a weight of one element.
ValueType type_of(const Program& program, ValueId id);
WeightShape shape_of(const Program& program, WeightId id);
StateDecl state_of(const Program& program, StateRef ref);

// Index among the inputs of the one named "wanted", or -1.
// Of a value that is an input of the program; else -1.
int input_of(const Program& program, ValueId id);
int wanted_input(const Program& program);

class OpCheck {
 public:
  OpCheck(const Program& program, std::string_view op) : program_(program), op_(op) {}

  // Operand `name`, which must exist and be of that element type.
  ValueType value(std::string_view name, ValueId id, Element element = Element::f32);
  WeightShape weight(std::string_view name, WeightId id);  // of any shape
  void matrix(std::string_view name, WeightId id, uint64_t experts, uint64_t rows, uint64_t columns);
  StateDecl state(std::string_view name, StateRef ref, StateKind kind);
  // A slot state of that shape.
  void slot(std::string_view name, StateRef ref, uint64_t heads, uint64_t key_width, uint64_t value_width);
  void next(StateRef next, StateRef state);  // is the version after

  void type(std::string_view name, ValueId id, const ValueType& want);
  void columns(std::string_view name, ValueId id, uint64_t want, std::string_view as);
  // A value whose rows stand for rows of the step: extent `rows`, or `wanted` in a program with that input.
  void step_rows(std::string_view name, ValueId id);
  void positive(std::string_view name, float parameter);
  void finite(std::string_view name, float parameter);
  template <class... Parts>
  void want(bool holds, const Parts&... parts) {
    if (!holds && problem_.empty()) problem_ = cat(op_, ": ", parts...);
  }

  Status status() const;

 private:
  const Program& program_;
  std::string_view op_;
  std::string problem_;
};

}  // namespace sluice
