#include "app/train/foresee.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/train/metrics.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr double kMeasuredSeconds = 3;

struct Memory {
  uint64_t own = 0;     // of the process
  uint64_t mapped = 0;  // pages of the model's file, which all programs read
  std::map<Purpose, uint64_t> by_purpose;
};

// What training will take, and what the budget holds: the factors, which are among both, the program, and the engine
// that answers samples.
Memory sum(const std::vector<MemoryLine>& lines, const Budget& budget, const TrainedFactors& factors) {
  Memory memory;
  const auto add = [&](Purpose purpose, uint64_t bytes) {
    if (purpose == Purpose::mapped_weights)
      memory.mapped = std::max(memory.mapped, bytes);
    else
      memory.by_purpose[purpose] += bytes;
  };
  for (const MemoryLine& line : lines) add(line.purpose, line.bytes);
  for (const BudgetLine& line : budget.lines()) add(line.purpose, line.bytes);
  memory.by_purpose[Purpose::adapters] -= factors.reserved_bytes();
  for (const auto& [purpose, bytes] : memory.by_purpose) memory.own += bytes;
  return memory;
}

std::string shown(const Memory& memory) {
  std::string text = cat("memory   ", format_bytes(memory.own + memory.mapped), ": ", format_bytes(memory.mapped),
                         " of the model's file");
  for (const auto& [purpose, bytes] : memory.by_purpose)
    if (bytes != 0) text += cat(", ", purpose_name(purpose), " ", format_bytes(bytes));
  return text + "\n";
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
  const Memory memory = sum(lines, machine.budget, factors);
  if (!json) console.out(shown(memory));
  TRY(const std::unique_ptr<Trainer> trainer,
      Trainer::create(model, factors, *machine.device, machine.budget, std::move(examples), options));
  if (!json)
    console.out(cat("training ", trainer->trained_examples(), " examples in ", trainer->steps(), " steps of ",
                    trainer->tokens() / trainer->steps(), " tokens\n"));
  TRY(const TrainerPace pace, trainer->measure(kMeasuredSeconds));
  const auto every = static_cast<uint64_t>(arguments.integer("--evaluate-every"));
  const double seconds = seconds_of(*trainer, pace, (trainer->steps() + every - 1) / every, options.dpo_beta > 0);
  if (json)
    console.json(Json::Object{{"memory_bytes", static_cast<int64_t>(memory.own)},
                              {"mapped_bytes", static_cast<int64_t>(memory.mapped)},
                              {"seconds", seconds},
                              {"tokens_per_second", pace.tokens_per_second}});
  else
    console.out(cat("time     ", format_time(seconds), " at ",
                    static_cast<int64_t>(std::lround(pace.tokens_per_second)), " tokens/s, as a piece of it ran\n"));
  return 0;
}

}  // namespace sluice
