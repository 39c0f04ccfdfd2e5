// Runs of ops over whole rows (fusion.h): a workgroup a row. A thread keeps elements thread, thread + THREADS, ... of
// every value in registers, so that only sums of squares need others; they are added up in that order, then as sum_all
// does.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "graph/operands.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kRowThreads = 256;

}  // namespace

// Writes the kernel's text op by op. Values and parameters are numbered in the order of their use, so that equal runs
// of other layers have the same text.
class Emitter::RowText {
 public:
  RowText(Emitter& emitter, Kernel& kernel) : emitter_(emitter), kernel_(kernel) {}

  void add(const RmsNorm& op) {
    const std::string x = value(op.x), out = make(op.out);
    const std::string eps = param(op.eps);
    text_ += cat("  var squares_", out, " = 0.0;\n");
    each(cat("squares_", out, " = fma(", x, "[k], ", x, "[k], squares_", out, ");"));
    text_ += cat("  let root_", out, " = sqrt(sum_all(squares_", out, ", thread) / f32(COLUMNS) + ", eps, ");\n");
    each(
        cat(out, "[k] = ", x, "[k] / root_", out, op.weight == kNone ? "" : cat(" * ", factor(op.weight, false)), ";"));
  }
  void add(const Add& op) { join(op.a, op.b, op.out, " + "); }
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
    const std::string gate = emitter_.columns(op.gate) == 1 ? single(op.gate) : cat(value(op.gate), "[k]");
    const std::string out = make(op.out);
    each(cat(out, "[k] = ", activation(op.kind), "(", gate, ") * ", up, "[k];"));
  }

  void store(ValueId id) { each(cat("store(", param(emitter_.at(id)), " + begin + i, ", value(id), "[k]);")); }

  std::string body() const {
    return cat(R"(
const EACH = (COLUMNS + THREADS - 1u) / THREADS;
)",
               activations_, R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let row = group_index(group, groups);
  if (row >= rows()) { return; }
  let begin = row * COLUMNS;
)",
               text_, "}\n");
  }

 private:
  ValueId storage(ValueId id) const { return emitter_.program_.values[id].storage; }

  // For each k, with i = thread + k THREADS, in the row.
  void each(const std::string& statement) {
    text_ += cat("  for (var k = 0u; k < EACH; k++) {\n    let i = thread + k * THREADS;\n    if (i < COLUMNS) { ",
                 statement, " }\n  }\n");
  }
  std::string declare(ValueId id) {
    std::string name = cat("v", values_.size());
    values_.emplace_back(storage(id), name);
    text_ += cat("  var ", name, ": array<f32, EACH>;\n");
    return name;
  }
  // The registers that hold it; loaded at its first use.
  std::string value(ValueId id) {
    for (const auto& [known, name] : values_)
      if (known == storage(id)) return name;
    const std::string name = declare(id);
    each(cat(name, "[k] = load(", param(emitter_.at(id)), " + begin + i);"));
    return name;
  }
  std::string make(ValueId id) { return declare(id); }
  std::string single(ValueId id) {
    std::string name = cat("one", values_.size());
    values_.emplace_back(kNone, name);
    text_ += cat("  let ", name, " = load(", param(emitter_.at(id)), " + row);\n");
    return name;
  }
  void join(ValueId a, ValueId b, ValueId result, const char* sign) {
    const std::string left = value(a), right = value(b);
    const std::string out = make(result);
    each(cat(out, "[k] = ", left, "[k]", sign, right, "[k];"));
  }
  template <class T>
  std::string param(T number) {
    CHECK(params_ < std::size(kParams));
    const char* name = kParams[params_++];
    kernel_.params.push_back({name, number});
    return cat("p.", name);
  }
  std::string factor(WeightId id, bool one) {
    if (kernel_.bindings.size() == 1) kernel_.bindings.push_back(factors());
    return cat("factors[", param(emitter_.layout_.factor(id)), one ? "]" : " + i]");
  }
  std::string activation(ActivationKind kind) {
    const std::string name = cat("activate_", static_cast<int>(kind));
    if (activations_.find(name) == std::string::npos) {
      std::string text = activation_text(kind);
      text.replace(text.find("activate"), std::string_view("activate").size(), name);
      activations_ += text;
    }
    return name;
  }

  static constexpr const char* kParams[] = {"a0",  "a1",  "a2",  "a3",  "a4",  "a5",  "a6",  "a7",  "a8",  "a9",  "a10",
                                            "a11", "a12", "a13", "a14", "a15", "a16", "a17", "a18", "a19", "a20", "a21",
                                            "a22", "a23", "a24", "a25", "a26", "a27", "a28", "a29", "a30", "a31"};

  Emitter& emitter_;
  Kernel& kernel_;
  std::string text_, activations_;
  std::vector<std::pair<ValueId, std::string>> values_;  // by storage
  size_t params_ = 0;
};

void Emitter::emit_rows(const Run& run) {
  ValueId first = kNone;
  for_each_output(program_.ops[run.first_op], [&](ValueId id) { first = id; });
  Kernel kernel{
      .name = "rows", .extent = type(first).extent, .threads = columns(first) < kRowThreads ? kThreads : kRowThreads};
  kernel.constants = {{"COLUMNS", columns(first)}};
  kernel.bindings = {memory()};
  kernel.snippets = {kMath};
  use_reduce(kernel, adapter_);
  RowText text(*this, kernel);
  for (uint32_t i = run.first_op; i < run.end_op; ++i)
    std::visit(
        [&](const auto& op) {
          if constexpr (requires { text.add(op); }) text.add(op);
        },
        program_.ops[i]);
  for (uint32_t i = run.first_op; i < run.end_op; ++i)
    for_each_output(program_.ops[i], [&](ValueId id) {
      if (run.end_op == run.first_op + 1 || readers_.outside(id, run.first_op, run.end_op)) text.store(id);
    });
  kernel.body = text.body();
  add(kernel);
}

}  // namespace sluice::webgpu
