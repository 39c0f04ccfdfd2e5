#include "train/training_program.h"

#include <algorithm>
#include <set>

#include "graph/operands.h"
#include "train/gradients.h"
#include "train/lowering.h"

namespace sluice {
namespace {

// Runs of ops of one layer in the forward part; the first op of each, and the end.
std::vector<uint32_t> layer_starts(const Program& program, uint32_t ops) {
  std::vector<uint32_t> starts;
  for (uint32_t op = 0; op < ops; ++op)
    if (op == 0 || program.layers[op] != program.layers[op - 1]) starts.push_back(op);
  starts.push_back(ops);
  return starts;
}

// Leaves out ops whose results nothing reads: parts of layers that are made again, gradients that nobody wants.
void prune(Program& program) {
  std::set<ValueId> read;
  const auto owner = [&](ValueId id) { return program.values[id].storage; };
  for (const NamedValue& output : program.outputs) read.insert(owner(output.value));
  std::vector<bool> stays(program.ops.size());
  for (size_t i = program.ops.size(); i-- > 0;) {
    for_each_output(program.ops[i], [&](ValueId id) { stays[i] = stays[i] || read.contains(owner(id)); });
    if (stays[i]) for_each_input(program.ops[i], [&](ValueId id) { read.insert(owner(id)); });
  }
  std::vector<Op> ops;
  std::vector<int32_t> layers;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!stays[i]) continue;
    ops.push_back(program.ops[i]);
    layers.push_back(program.layers[i]);
  }
  program.ops = std::move(ops);
  program.layers = std::move(layers);
}

// Walks the layers backwards and makes the gradients outputs.
Status record_gradients(Recorder& recorder, const Forward& forward, uint32_t kept, TrainingProgram& training) {
  Gradients gradients(recorder, forward.ops, forward.factors);
  const std::vector<uint32_t> starts = layer_starts(recorder.program(), forward.ops);
  for (size_t i = starts.size() - 1; i-- > 0;) {
    const size_t behind = starts.size() - 2 - i;  // runs that follow this one
    // What follows the last layer and that layer itself are still there.
    const MadeAgain again = behind < 2 ? MadeAgain::nothing : behind <= kept ? MadeAgain::small : MadeAgain::all;
    gradients.walk(starts[i], starts[i + 1], again);
  }
  recorder.begin_layer(-1);
  for (size_t i = 0; i < forward.factors.size(); ++i) {
    const std::optional<Value> gradient = gradients.of_weight(forward.factors[i]);
    if (!gradient)
      return error(ErrorKind::unsupported, "adapter: found ", forward.names[i],
                   ", which no product of the text program uses: want one that acts");
    recorder.output(*gradient, cat("gradient of ", forward.names[i]));
    training.gradients.push_back({.factor = forward.names[i], .value = gradient->id});
  }
  return {};
}

}  // namespace

Result<TrainingProgram> record_training(const Program& text, const std::vector<TrainedWeight>& trained,
                                        const TrainingParts& parts) {
  Recorder recorder(Lowering::begun(text));
  TRY(const Forward forward, Lowering(recorder, text, trained).run(parts.gradients));
  TrainingProgram training;
  training.loss = forward.loss.id;
  recorder.output(forward.loss, "loss");
  if (parts.gradients) TRY_STATUS(record_gradients(recorder, forward, parts.kept_layers, training));
  TRY(training.program, recorder.finish());
  prune(training.program);
  return training;
}

}  // namespace sluice
