#include "app/train/foresee.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/train/metrics.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr double kMeasuredSeconds = 3;

using ByPurpose = std::map<Purpose, uint64_t>;
struct Memory {
  ByPurpose process, gpu;
  uint64_t mapped = 0;  // pages of the model's file, which all programs read
};

uint64_t sum(const ByPurpose& lines) {
  uint64_t bytes = 0;
  for (const auto& [purpose, own] : lines) bytes += own;
  return bytes;
}

// What training will take, and what the budget holds: the factors, the program, and the engine that answers samples.
Memory memory_of(const std::vector<MemoryLine>& lines, const Budget& budget) {
  Memory memory;
  const auto add = [&](const auto& line) {
    if (line.purpose == Purpose::mapped_weights)
      memory.mapped = std::max(memory.mapped, line.bytes);
    else
      (line.domain.kind() == Domain::Kind::device ? memory.gpu : memory.process)[line.purpose] += line.bytes;
  };
  std::ranges::for_each(lines, add);
  std::ranges::for_each(budget.lines(), add);
  return memory;
}

std::string shown(const ByPurpose& lines) {
  std::string text;
  for (const auto& [purpose, bytes] : lines)
    if (bytes != 0) text += cat(text.empty() ? "" : ", ", purpose_name(purpose), " ", format_bytes(bytes));
  return text + "\n";
}

std::string shown(const Memory& memory) {
  const uint64_t own = sum(memory.process), gpu = sum(memory.gpu);
  std::string text = cat("memory   ", format_bytes(own + memory.mapped), ": ", format_bytes(memory.mapped),
                         " of the model's file, ", shown(memory.process));
  if (gpu != 0) text += cat("GPU      ", format_bytes(gpu), ": ", shown(memory.gpu));
  return text;
}

// Of pairs the losses are computed without gradients first, and at the beginning those of all.
double seconds_of(const Trainer& trainer, const TrainerPace& pace, uint64_t evaluations, bool pairs) {
  double seconds = static_cast<double>(trainer.tokens()) / pace.tokens_per_second +
                   static_cast<double>(trainer.steps()) * pace.update_seconds;
  if (pace.evaluation_tokens_per_second > 0) {
    const uint64_t once = pairs ? trainer.tokens() + trainer.reference_tokens() : 0;
    seconds += static_cast<double>(evaluations * trainer.held_out_tokens() + once) / pace.evaluation_tokens_per_second;
  }
  return seconds;
}

}  // namespace

Result<int> foresee(const Model& model, TrainedFactors& factors, Machine& machine, std::vector<TrainSequence> examples,
                    const TrainerOptions& options, const Arguments& arguments, Console& console) {
  const bool json = arguments.flag("--json");
  TRY(const std::vector<MemoryLine> lines, Trainer::memory(model, factors, *machine.device, examples, options));
  const Memory memory = memory_of(lines, machine.budget);
  if (!json) console.out(shown(memory));
  TRY(const std::unique_ptr<Trainer> trainer,
      Trainer::create(model, factors, *machine.device, machine.budget, std::move(examples), options));
  if (!json)
    console.out(cat("training ", trainer->trained_examples(), " examples in ", trainer->steps(), " steps of ",
                    trainer->tokens() / trainer->steps(), " tokens\nlayers   ", options.kept_layers, " of ",
                    model.facts().layers, " kept for their gradients\n"));
  TRY(const TrainerPace pace, trainer->measure(kMeasuredSeconds));
  const auto every = static_cast<uint64_t>(arguments.integer("--evaluate-every"));
  const double seconds = seconds_of(*trainer, pace, (trainer->steps() + every - 1) / every, options.dpo_beta > 0);
  if (json)
    console.json(Json::Object{{"memory_bytes", static_cast<int64_t>(sum(memory.process))},
                              {"device_memory_bytes", static_cast<int64_t>(sum(memory.gpu))},
                              {"kept_layers", int64_t{options.kept_layers}},
                              {"mapped_bytes", static_cast<int64_t>(memory.mapped)},
                              {"seconds", seconds},
                              {"tokens_per_second", pace.tokens_per_second}});
  else
    console.out(cat("time     ", format_time(seconds), " at ",
                    static_cast<int64_t>(std::lround(pace.tokens_per_second)), " tokens/s, as a piece of it ran\n"));
  return 0;
}

}  // namespace sluice
