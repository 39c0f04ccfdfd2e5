// Walking an op's operands without knowing the op: liveness, checks and docs derive from Op::operands.
#pragma once

#include "graph/op.h"

namespace sluice {

// Visitors derive from this and hide the calls that they want. `what` is the operand's shape and meaning.
struct OperandVisitor {
  void input(const char* /*name*/, ValueId /*id*/, const char* /*what*/) {}    // kNone: left out
  void weight(const char* /*name*/, WeightId /*id*/, const char* /*what*/) {}  // kNone: left out
  void reads(const char* /*name*/, StateRef /*state*/, const char* /*what*/) {}
  void writes(const char* /*name*/, StateRef /*state*/, const char* /*what*/) {}
  void output(const char* /*name*/, ValueId /*id*/, const char* /*what*/) {}  // kNone: left out
};

template <class Visitor>
void visit_operands(const Op& op, Visitor&& visitor) {
  std::visit([&](const auto& o) { o.operands(visitor); }, op);
}

template <class F>
void for_each_input(const Op& op, F&& f) {
  struct Inputs : OperandVisitor {
    F& f;
    explicit Inputs(F& function) : f(function) {}
    void input(const char*, ValueId id, const char*) {
      if (id != kNone) f(id);
    }
  };
  visit_operands(op, Inputs(f));
}

template <class F>
void for_each_output(const Op& op, F&& f) {
  struct Outputs : OperandVisitor {
    F& f;
    explicit Outputs(F& function) : f(function) {}
    void output(const char*, ValueId id, const char*) {
      if (id != kNone) f(id);
    }
  };
  visit_operands(op, Outputs(f));
}

template <class F>
void for_each_weight(const Op& op, F&& f) {
  struct Weights : OperandVisitor {
    F& f;
    explicit Weights(F& function) : f(function) {}
    void weight(const char*, WeightId id, const char*) {
      if (id != kNone) f(id);
    }
  };
  visit_operands(op, Weights(f));
}

}  // namespace sluice
