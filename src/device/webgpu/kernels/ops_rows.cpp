// Runs of ops over whole rows (graph/fusion.h): one workgroup for each row. A thread keeps elements thread, thread +
// THREADS, ... of every value in registers (numbers, or groups of four if the row can be read so). Only the sums of
// norms need other threads: each thread adds its elements in order, then sum_all adds the threads. What the run reads
// is loaded before the first of these sums, so that it is on its way meanwhile.
//
// Products of such a row may include the run. Each workgroup then recomputes the row in workgroup memory, and the first
// workgroup stores the values that others read. That is cheaper than a separate dispatch.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "graph/operands.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kRowThreads = 256;

constexpr const char* kNumbers = R"(
alias Element = f32;
const ELEMENTS = ROW_COLUMNS;
fn element(at: u32, i: u32) -> f32 { return load(at + i); }
fn store_element(at: u32, i: u32, x: f32) { store(at + i, x); }
fn sum_of(x: f32) -> f32 { return x; }
fn squares_of(x: f32) -> f32 { return x * x; }
)";
constexpr const char* kFourNumbers = R"(
alias Element = vec4f;
const ELEMENTS = ROW_COLUMNS / 4u;
fn element(at: u32, i: u32) -> vec4f { return load4(at + i * 4u); }
fn store_element(at: u32, i: u32, x: vec4f) { store4(at + i * 4u, x); }
fn sum_of(x: vec4f) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn squares_of(x: vec4f) -> f32 { return dot(x, x); }
)";
constexpr const char* kFactor = R"(
fn factor(at: u32, i: u32) -> f32 { return factors[at + i]; }
fn one_factor(at: u32) -> f32 { return factors[at]; }
)";
// Every weight begins at a multiple of 16 words.
constexpr const char* kFourFactors = R"(
fn factor(at: u32, i: u32) -> vec4f { return factors[at / 4u + i]; }
fn one_factor(at: u32) -> f32 { return factors[at / 4u].x; }
)";

}  // namespace

// Writes the text op by op. Values and parameters are numbered in the order of their use, so that equal runs of other
// layers have the same text.
class Emitter::RowText {
 public:
  RowText(Emitter& emitter, Kernel& kernel, bool has_row_x)
      : emitter_(emitter), kernel_(kernel), has_row_x_(has_row_x), in_fours_(is_in_fours(kernel)) {}

  void add(const RmsNorm& op) {
    const std::string x = value(op.x), out = make(op.out);
    const std::string eps = param(op.eps);
    const std::string squares = mean_of(cat("squares_of(", x, "[k])"));
    text_ += cat("  let root_", out, " = sqrt(", squares, " + ", eps, ");\n");
    each(
        cat(out, "[k] = ", x, "[k] / root_", out, op.weight == kNone ? "" : cat(" * ", factor(op.weight, false)), ";"));
  }
  // Subtracts the mean of the differences, too, as kLayerNorm in ops_norm.cpp does.
  void add(const LayerNorm& op) {
    const std::string x = value(op.x), out = make(op.out);
    const std::string mean = mean_of(cat("sum_of(", x, "[k])"));
    each(cat(out, "[k] = ", x, "[k] - ", mean, ";"));
    const std::string left = mean_of(cat("sum_of(", out, "[k])"));
    each(cat(out, "[k] -= ", left, ";"));
    const std::string variance = mean_of(cat("squares_of(", out, "[k])"));
    const std::string eps = param(op.eps);
    each(cat(out, "[k] = ", out, "[k] / sqrt(", variance, " + ", eps, ")",
             op.weight == kNone ? "" : cat(" * ", factor(op.weight, false)),
             op.bias == kNone ? "" : cat(" + ", factor(op.bias, false)), ";"));
  }
  void add(const Add& op) { join(op.a, op.b, op.out, " + "); }
  void add(const AddBias& op) {
    const std::string x = value(op.x), out = make(op.out);
    each(cat(out, "[k] = ", x, "[k] + ", factor(op.bias, false), ";"));
  }
  void add(const Mul& op) { join(op.a, op.b, op.out, " * "); }
  void add(const Scale& op) {
    const std::string x = value(op.x), out = make(op.out);
    const bool one = op.weight != kNone && emitter_.program_.weights[op.weight].shape.columns == 1;
    each(cat(out, "[k] = ", x, "[k] * ", param(op.factor), op.weight == kNone ? "" : cat(" * ", factor(op.weight, one)),
             ";"));
  }
  void add(const Activation& op) {
    const std::string x = value(op.x), out = make(op.out);
    each(cat(out, "[k] = ", activation(op.kind), "(", x, "[k]);"));
  }
  void add(const GatedActivation& op) {
    const std::string up = value(op.up);
    const std::string gate =
        emitter_.columns(op.gate) == 1 ? cat("Element(", single(op.gate), ")") : cat(value(op.gate), "[k]");
    const std::string out = make(op.out);
    each(cat(out, "[k] = ", activation(op.kind), "(", gate, ") * ", up, "[k];"));
  }

  void store(ValueId id) {
    each(cat("if (is_stored) { store_element(", param(emitter_.at(id)), " + begin, i, ", value(id), "[k]); }"));
  }
  // Leaves the value's row, which must be in fours, in row_x.
  void keep(ValueId id) {
    text_ += "  workgroupBarrier();\n";
    const std::string x = value(id);
    each(cat("row_x[i] = ", x, "[k];"));
    text_ += "  workgroupBarrier();\n";
  }

  // fn make_row(row, thread, is_stored, block): every thread of the workgroup calls it. `block`: which one of those
  // that make this row.
  std::string text() const {
    return cat(in_fours_ ? kFourNumbers : kNumbers, has_factors_ ? in_fours_ ? kFourFactors : kFactor : "",
               "const ROW_EACH = (ELEMENTS + THREADS - 1u) / THREADS;\n", activations_,
               "fn make_row(row: u32, thread: u32, is_stored: bool, block: u32) {\n  let begin = row * ROW_COLUMNS;\n",
               loads_, text_, "}\n");
  }

 private:
  ValueId storage(ValueId id) const { return emitter_.program_.values[id].storage; }

  // For each k, with i = thread + k THREADS, in the row.
  static std::string of_each(const std::string& statement) {
    return cat("  for (var k = 0u; k < ROW_EACH; k++) {\n    let i = thread + k * THREADS;\n    if (i < ELEMENTS) { ",
               statement, " }\n  }\n");
  }
  void each(const std::string& statement) { text_ += of_each(statement); }
  static std::string declared(const std::string& name) { return cat("  var ", name, ": array<Element, ROW_EACH>;\n"); }
  std::string name_of_next(ValueId id) {
    std::string name = cat("v", values_.size());
    values_.emplace_back(storage(id), name);
    return name;
  }
  // The registers of a value, which its first use loads.
  std::string value(ValueId id) {
    for (const auto& [known, name] : values_)
      if (known == storage(id)) return name;
    const std::string name = name_of_next(id);
    loads_ += declared(name) + of_each(cat(name, "[k] = element(", param(emitter_.at(id)), " + begin, i);"));
    if (emitter_.use_deferred(kernel_, id, has_row_x_)) {
      text_ += "  sum_deferred(row, thread, block);\n";
      each(cat(name, "[k] = deferred(row, i, ", name, "[k]);"));
    }
    return name;
  }
  std::string make(ValueId id) {
    std::string name = name_of_next(id);
    text_ += declared(name);
    return name;
  }
  // The mean over the row of an expression in k.
  std::string mean_of(const std::string& expression) {
    const std::string name = cat("mean_", means_++);
    text_ += cat("  var sum_of_", name, " = 0.0;\n");
    each(cat("sum_of_", name, " += ", expression, ";"));
    text_ += cat("  let ", name, " = sum_all(sum_of_", name, ", thread) / f32(ROW_COLUMNS);\n");
    return name;
  }
  std::string single(ValueId id) {
    std::string name = cat("one", values_.size());
    values_.emplace_back(kNone, name);
    loads_ += cat("  let ", name, " = load(", param(emitter_.at(id)), " + row);\n");
    return name;
  }
  void join(ValueId a, ValueId b, ValueId result, const char* sign) {
    const std::string left = value(a), right = value(b);
    const std::string out = make(result);
    each(cat(out, "[k] = ", left, "[k]", sign, right, "[k];"));
  }
  template <class T>
  std::string param(T number) {
    kernel_.params.push_back({cat("a", params_++), number});
    return cat("p.", kernel_.params.back().name);
  }
  std::string factor(WeightId id, bool one) {
    if (!has_factors_) {
      kernel_.bindings.push_back(factors());
      if (in_fours_) kernel_.bindings.back().element = "vec4f";
    }
    has_factors_ = true;
    const std::string at = param(emitter_.layout_.factor(id));
    std::string name = cat("factor_", factors_++);
    if (one) {
      loads_ += cat("  let ", name, " = one_factor(", at, ");\n");
      return name;
    }
    loads_ += declared(name) + of_each(cat(name, "[k] = factor(", at, ", i);"));
    return name + "[k]";
  }
  std::string activation(ActivationKind kind) {
    const std::string name = cat("row_activation_", static_cast<int>(kind));
    if (activations_.find(name) == std::string::npos) {
      const std::string one = cat(name, "_of_one");
      activations_ += activation_text(kind, one);
      activations_ += cat(
          "fn ", name, "(x: Element) -> Element {\n  return ",
          in_fours_ ? cat("vec4f(", one, "(x.x), ", one, "(x.y), ", one, "(x.z), ", one, "(x.w))") : cat(one, "(x)"),
          ";\n}\n");
    }
    return name;
  }

  Emitter& emitter_;
  Kernel& kernel_;
  bool has_row_x_ = false, in_fours_ = false, has_factors_ = false;
  std::string loads_, text_, activations_;               // loads_ comes before text_
  std::vector<std::pair<ValueId, std::string>> values_;  // by storage
  uint32_t params_ = 0, means_ = 0, factors_ = 0;
};

// Whether the rows of all values of the ops are whole groups of four elements. Values with one element a row are
// allowed.
bool Emitter::are_rows_of_fours(uint32_t first_op, uint32_t end_op) const {
  bool fours = true;
  for (uint32_t i = first_op; i < end_op; ++i) {
    const auto look = [&](ValueId id) {
      fours = fours && (columns(id) == 1 || (columns(id) % 4 == 0 && at(id) % 4 == 0));
    };
    for_each_input(program_.ops[i], look);
    for_each_output(program_.ops[i], [&](ValueId id) { fours = fours && columns(id) % 4 == 0 && at(id) % 4 == 0; });
  }
  return fours;
}

// Adds make_row() of those ops as one snippet to a kernel whose memory and threads are set. `kept`: the value that it
// leaves in row_x; kNone: none. Values that only ops [end_op, read_to) read are not stored.
void Emitter::use_rows(Kernel& kernel, uint32_t first_op, uint32_t end_op, ValueId kept, uint32_t read_to) {
  ValueId first = kNone;
  for_each_output(program_.ops[first_op], [&](ValueId id) { first = id; });
  kernel.constants.push_back({"ROW_COLUMNS", columns(first)});
  use_reduce(kernel, adapter_);
  RowText text(*this, kernel, kept != kNone);
  for (uint32_t i = first_op; i < end_op; ++i)
    std::visit(
        [&](const auto& op) {
          if constexpr (requires { text.add(op); }) text.add(op);
        },
        program_.ops[i]);
  for (uint32_t i = first_op; i < end_op; ++i)
    for_each_output(program_.ops[i], [&](ValueId id) {
      if (read_to == first_op + 1 || readers_.outside(id, first_op, read_to)) text.store(id);
    });
  if (kept != kNone) text.keep(kept);
  kernel.snippets.push_back(text.text());
}

void Emitter::emit_rows(uint32_t first_op, uint32_t end_op) {
  ValueId first = kNone;
  for_each_output(program_.ops[first_op], [&](ValueId id) { first = id; });
  const bool fours = are_rows_of_fours(first_op, end_op);
  const uint32_t elements = fours ? columns(first) / 4 : columns(first);
  Kernel kernel{.name = "rows", .extent = type(first).extent, .threads = elements <= kThreads ? kThreads : kRowThreads};
  kernel.bindings = {memory()};
  if (fours) kernel.bindings.front().element = kFours;
  kernel.snippets = {kMath};
  use_rows(kernel, first_op, end_op, kNone, end_op);
  kernel.body = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let row = group_index(group, groups);
  if (row < rows()) { make_row(row, thread, true, 0u); }
}
)";
  add(kernel);
}

}  // namespace sluice::webgpu
