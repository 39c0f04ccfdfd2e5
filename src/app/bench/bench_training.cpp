#include "app/bench/bench_training.h"

#include <array>
#include <cstdio>
#include <utility>

#include "app/train/kept_layers_option.h"
#include "base/text.h"
#include "train/factor_optimizer.h"
#include "train/training_step.h"

namespace sluice {
Result<TrainingResult> bench_training(const Model& model, MeteredDevice& device, Meter& meter, Machine& machine,
                                      const Arguments& arguments, const TrainingTest& test) {
  Budget& budget = machine.budget;
  TRY(std::shared_ptr<const Adapter> adapter, Adapter::made(model, test.rank, /*seed=*/0));
  TRY(const std::unique_ptr<TrainedFactors> factors,
      TrainedFactors::create(std::move(adapter), model.weights(), *machine.pool, budget));
  TrainSequence sequence{.tokens = random_tokens(test.tokens, model.facts().vocabulary, 0),
                         .is_target = std::vector<uint8_t>(test.tokens, 1)};
  const BatchPart part{.sequence = &sequence, .share = 1.0f / static_cast<float>(test.tokens - 1)};
  const std::array batch = {part};
  TrainingStep::Options options{.arithmetic = parse_arithmetic(arguments.text("--arithmetic")),
                                .size = {.rows = test.tokens, .targets = test.tokens - 1, .sequences = 1},
                                .gradients = false};
  TRY(const std::unique_ptr<TrainingStep> forward, TrainingStep::create(model, *factors, device, budget, options));
  options.gradients = true;
  options.on_device = FactorOptimizer::is_on_device(*factors, device, {});
  TRY(options.kept_layers, layers_to_keep(arguments, machine, model, [&](uint32_t kept) {
        options.kept_layers = kept;
        return TrainingStep::memory(model, *factors, device, options);
      }));
  TRY(const std::unique_ptr<TrainingStep> step, TrainingStep::create(model, *factors, device, budget, options));
  const std::unique_ptr<FactorOptimizer> optimizer = FactorOptimizer::make({}, *factors, *step);

  std::vector<double> forwards, steps, updates, ratios;
  for (uint32_t round = 0; round <= test.rounds + (test.ops ? 1 : 0); ++round) {
    // A device with memory of its own first gets the new factors, which is a part of training, not of a forward pass.
    if (device.info().memory != Domain::host) TRY_STATUS(forward->run(batch));
    const uint64_t begin = nanoseconds();
    TRY_STATUS(forward->run(batch));
    const double of_forward = seconds_since(begin);
    meter.time_ops = round > test.rounds;
    meter.clear();
    const uint64_t started = nanoseconds();
    optimizer->clear_gradients();
    TRY_STATUS(step->run(batch));
    const double of_step = seconds_since(started);
    if (meter.time_ops) continue;
    TRY_STATUS(optimizer->update(/*rate=*/1e-6));
    const double of_both = seconds_since(started);
    if (round == 0) continue;  // it lets caches and clocks settle
    forwards.push_back(of_forward);
    steps.push_back(of_step);
    updates.push_back(of_both - of_step);
    ratios.push_back(of_both / of_forward);
  }
  TrainingResult result{.test = test,
                        .forward = spread_of(std::move(forwards)),
                        .step = spread_of(std::move(steps)),
                        .update = spread_of(std::move(updates)),
                        .step_in_forwards = spread_of(std::move(ratios)),
                        .kept_layers = options.kept_layers};
  if (test.ops) result.ops = op_shares(meter.facts(), meter.steps());
  meter.time_ops = false;
  return result;
}

std::string training_text(const BenchFacts& facts, const TrainingResult& result) {
  const double seconds = result.step.median + result.update.median;
  char speed[64];
  std::snprintf(speed, sizeof speed, "%.1f tokens/s", result.test.tokens / seconds);
  std::string text =
      cat("\ntraining  ", result.test.tokens, " tokens, rank ", result.test.rank, ", ", result.kept_layers,
          " layers kept: ", speed, "\nforward   ", spread_text(result.forward, 1e3, " ms"), "\nstep      ",
          spread_text(result.step, 1e3, " ms"), "\noptimizer ", spread_text(result.update, 1e3, " ms"), "\nboth      ",
          spread_text(result.step_in_forwards, 1, ""), " forward passes\n");
  if (!result.ops.empty()) text += cat("\nops of the step\n", ops_table(facts, result.bandwidth, result.ops));
  return text;
}

}  // namespace sluice
