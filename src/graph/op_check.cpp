#include "graph/op_check.h"

#include <cmath>

namespace sluice {
namespace {

std::string describe(Extent extent) {
  const char* symbol = symbol_name(extent.symbol);
  return extent.ratio == 1 ? symbol : cat(extent.ratio, " ", symbol);
}

}  // namespace

std::string describe(const ValueType& type) {
  const char* element = type.element == Element::f32 ? "f32" : "i32";
  const std::string extent = describe(type.extent);
  if (type.heads == 1) return cat(element, " [", extent, ", ", type.width, "]");
  return cat(element, " [", extent, ", ", type.heads, ", ", type.width, "]");
}

std::string describe(const WeightShape& shape) {
  const std::string matrix = cat("[", shape.rows, ", ", shape.columns, "]");
  return shape.experts == 1 ? matrix : cat(shape.experts, " x ", matrix);
}

ValueType type_of(const Program& program, ValueId id) {
  return id < program.values.size() ? program.values[id].type : ValueType{.width = 1};
}

WeightShape shape_of(const Program& program, WeightId id) {
  return id < program.weights.size() ? program.weights[id].shape : WeightShape{.columns = 1};
}

StateDecl state_of(const Program& program, StateRef ref) {
  return ref.state < program.states.size() ? program.states[ref.state] : StateDecl{.key_width = 1, .value_width = 1};
}

int input_of(const Program& program, ValueId id) {
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].value == id) return static_cast<int>(i);
  return -1;
}

int wanted_input(const Program& program) {
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].name == "wanted") return static_cast<int>(i);
  return -1;
}

ValueType OpCheck::value(std::string_view name, ValueId id, Element element) {
  want(id < program_.values.size(), name, " is missing");
  const ValueType found = type_of(program_, id);
  want(found.element == element, name, " is ", describe(found), ": want ", element == Element::f32 ? "f32" : "i32");
  return found;
}

WeightShape OpCheck::weight(std::string_view name, WeightId id) {
  want(id < program_.weights.size(), name, " is missing");
  return shape_of(program_, id);
}

void OpCheck::matrix(std::string_view name, WeightId id, uint64_t experts, uint64_t rows, uint64_t columns) {
  const WeightShape found = weight(name, id);
  if (found.experts == experts && found.rows == rows && found.columns == columns) return;
  const std::string& called = id < program_.weights.size() ? program_.weights[id].name : std::string();
  want(false, name, " ", called, " is ", describe(found), ": want ", experts == 1 ? "" : cat(experts, " x "), "[", rows,
       ", ", columns, "]");
}

StateDecl OpCheck::state(std::string_view name, StateRef ref, StateKind kind) {
  want(ref.state < program_.states.size(), name, " is missing");
  const StateDecl found = state_of(program_, ref);
  const bool of_kind = found.group >= program_.groups.size() || program_.groups[found.group].kind == kind;
  want(of_kind, name, " ", found.name, kind == StateKind::paged ? " is a slot: want pages" : " has pages: want a slot");
  return found;
}

void OpCheck::slot(std::string_view name, StateRef ref, uint64_t heads, uint64_t key_width, uint64_t value_width) {
  const StateDecl found = state(name, ref, StateKind::slots);
  want(found.heads == heads && found.key_width == key_width && found.value_width == value_width, name, " ", found.name,
       " is [", found.heads, ", ", found.key_width, ", ", found.value_width, "]: want [", heads, ", ", key_width, ", ",
       value_width, "]");
}

void OpCheck::next(StateRef next, StateRef state) {
  want(next.state == state.state && next.version == state.version + 1, "next is not the version after state");
}

void OpCheck::type(std::string_view name, ValueId id, const ValueType& wanted) {
  const ValueType found = type_of(program_, id);
  want(id < program_.values.size(), name, " is missing");
  want(found == wanted, name, " is ", describe(found), ": want ", describe(wanted));
}

void OpCheck::columns(std::string_view name, ValueId id, uint64_t wanted, std::string_view as) {
  const ValueType found = type_of(program_, id);
  want(found.columns() == wanted, name, " is ", describe(found), ": want ", wanted, " columns as ", as);
}

void OpCheck::step_rows(std::string_view name, ValueId id) {
  const ValueType found = type_of(program_, id);
  want(found.extent.ratio == 1, name, " is ", describe(found), ": want one row for each of the step");
  want(has_positions(found.extent), name, " is ", describe(found),
       ": want rows that have a position, of the step or wanted");
  want(found.extent.symbol != Symbol::wanted || wanted_input(program_) >= 0, name, " is ", describe(found),
       ": want an input named wanted in the program");
}

void OpCheck::positive(std::string_view name, float parameter) {
  want(std::isfinite(parameter) && parameter > 0, name, " is ", parameter, ": want a positive number");
}

void OpCheck::finite(std::string_view name, float parameter) {
  want(std::isfinite(parameter), name, " is ", parameter, ": want a finite number");
}

Status OpCheck::status() const {
  if (problem_.empty()) return {};
  return Error{ErrorKind::invalid, problem_};
}

}  // namespace sluice
