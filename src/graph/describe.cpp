#include "graph/describe.h"

#include "base/text.h"
#include "graph/operands.h"
#include "graph/program.h"

namespace sluice {
namespace {

constexpr const char* kIntroduction =
    R"(# Operators

Generated from src/graph/ops by `operators_md`; a test holds this page to them. An op is a plain struct; `Op` is a
variant of them all, and each device has a function for every one. A value is a row-major table
`[extent, heads, width]`; one head is left out. The extent `rows` stands for the rows of a step, `wanted` for those whose
logits are asked for. What the ops mean, in loops: src/device/reference/interpreter.cpp.

The tolerance is the largest difference from the f64 reference that the parity suite lets pass, as a share of the larger
of the row's largest magnitude and the root mean square of the result: in `exact` arithmetic, in `fast`, and in `fast`
with quantised weights. `linear` and `experts` on a device that rounds no activations in `fast` are held to the bar of
`exact` there; where a device rounds them to 8 bits, a test of its own shows that errors lean to no side.

One rule for ties everywhere: larger value first, then lower index.
)";

struct OperandTable : OperandVisitor {
  std::string text = "| operand | role | what it is |\n|---|---|---|\n";

  void line(const char* name, const char* role, const char* what) {
    text += cat("| `", name, "` | ", role, " | ", what, " |\n");
  }
  void input(const char* name, ValueId, const char* what) { line(name, "in", what); }
  void weight(const char* name, WeightId, const char* what) { line(name, "weight", what); }
  void reads(const char* name, StateRef, const char* what) { line(name, "state read", what); }
  void writes(const char* name, StateRef, const char* what) { line(name, "state written", what); }
  void output(const char* name, ValueId, const char* what) { line(name, "out", what); }
};

std::string number(float tolerance) { return tolerance == 0 ? "equal" : cat(double{tolerance}); }

std::string section(const Op& op) {
  const OpDoc& doc = op_doc(op);
  OperandTable operands;
  visit_operands(op, operands);
  const Tolerance& bar = doc.tolerance;
  return cat("\n## ", doc.name, "\n\n```text\n", doc.formula, "\n```\n\n", operands.text, "\nSource: ", doc.source,
             ".\n\nTolerance: exact ", number(bar.exact), ", fast ", number(bar.fast), ", quantised ",
             number(bar.fast_8bit), " (", doc.reason, ").\n");
}

template <size_t... I>
std::string sections(std::index_sequence<I...>) {
  return cat(section(std::variant_alternative_t<I, OpAlternatives::Type>{})...);
}

std::string blocks() {
  std::string text =
      "\n## Blocks\n\nA block is a run of ops that a device may compute with one kernel; its meaning is those ops.\n\n";
  text += "| block | ops |\n|---|---|\n";
  for (int kind = 0; kind < kBlockKinds; ++kind) {
    const BlockDoc& doc = block_doc(static_cast<BlockKind>(kind));
    text += cat("| `", doc.name, "` | ", doc.ops, " |\n");
  }
  return text;
}

}  // namespace

std::string operators_markdown() {
  return kIntroduction + sections(std::make_index_sequence<std::variant_size_v<OpAlternatives::Type>>()) + blocks();
}

}  // namespace sluice
