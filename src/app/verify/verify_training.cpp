#include "app/verify/verify_training.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "app/verify/compare.h"
#include "app/verify/training_golden.h"
#include "base/files/file.h"
#include "base/text.h"
#include "train/factor_optimizer.h"
#include "train/factors.h"
#include "train/training_step.h"

namespace sluice {
namespace {

StepSize size_of(const std::vector<TrainSequence>& sequences) {
  StepSize size{.sequences = static_cast<uint32_t>(sequences.size())};
  for (const TrainSequence& one : sequences) {
    size.rows += static_cast<uint32_t>(one.tokens.size());
    size.targets += one.targets();
  }
  return size;
}

double share(double found, double want) { return std::abs(found - want) / std::abs(want); }

// Trains the golden's adapter once for each of its runs.
class CaseTrainer {
 public:
  CaseTrainer(const Golden& golden, const GoldenCase& golden_case, TrainingGolden training)
      : golden_(golden), case_(golden_case), training_(std::move(training)) {
    for (const TrainSequence& one : training_.sequences) targets_ += one.targets();
  }

  Result<TrainErrors> run(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic) {
    if (case_.files.size() != 1)
      return error(ErrorKind::corrupt, "case ", case_.name, ": files: want the folder of one adapter");
    TRY(const std::shared_ptr<const Adapter> adapter,
        Adapter::open(model, join_path(golden_.folder(), case_.files.front())));
    for (const TrainingRun& one : training_.runs) {
      optimizer_.reset();
      TRY(factors_, TrainedFactors::create(adapter, model.weights(), pool_, budget));
      TRY(step_, TrainingStep::create(model, *factors_, device, budget,
                                      {.arithmetic = arithmetic,
                                       .size = size_of(training_.sequences),
                                       .on_device = FactorOptimizer::is_on_device(*factors_, device, one.optimizer)}));
      optimizer_ = FactorOptimizer::make(one.optimizer, *factors_, *step_);
      TRY_STATUS(train(one));
    }
    return errors_;
  }

 private:
  // The mean loss of all targets; adds to the gradients.
  Result<double> batch_loss(bool accumulated) {
    std::vector<BatchPart> batch;
    batch.reserve(training_.sequences.size());
    for (const TrainSequence& one : training_.sequences)
      batch.push_back({.sequence = &one, .share = 1 / static_cast<float>(targets_)});
    double sum = 0;
    for (size_t first = 0; first < batch.size();) {
      const size_t count = accumulated ? 1 : batch.size();
      TRY(const BatchLoss loss, step_->run(std::span(batch).subspan(first, count)));
      for (const double one : loss.sums) sum += one;
      first += count;
    }
    return sum / targets_;
  }

  Status train(const TrainingRun& run) {
    std::vector<double> losses;
    for (size_t i = 0; i < run.rates.size(); ++i) {
      optimizer_->clear_gradients();
      TRY(const double loss, batch_loss(run.accumulated));
      losses.push_back(loss);
      if (i == 0 && !run.accumulated) TRY_STATUS(compare_gradients());
      TRY_STATUS(optimizer_->update(run.rates[i]));
    }
    TRY(const double after, batch_loss(run.accumulated));
    losses.push_back(after);
    compare_losses(run, losses);
    errors_.steps += run.rates.size();
    TRY_STATUS(optimizer_->take_factors());
    return run.finals.empty() ? Status() : compare_finals(run.finals);
  }

  void compare_losses(const TrainingRun& run, const std::vector<double>& losses) {
    for (size_t i = 0; i < losses.size(); ++i) {
      const double want = i < run.losses.size() ? run.losses[i] : run.loss_after;
      errors_.loss = std::max(errors_.loss, share(losses[i], want));
    }
    if (!run.accumulated) {
      together_ = losses;
      return;
    }
    for (size_t i = 0; i < std::min(losses.size(), together_.size()); ++i)
      errors_.accumulated = std::max(errors_.accumulated.value_or(0), share(losses[i], together_[i]));
  }

  // Calls body(tensor, the golden's numbers) for each tensor of the adapter of which the golden has some.
  template <class Body>
  Status each_golden(const std::string& prefix, const Body& body) {
    for (size_t i = 0; i < factors_->tensors().size(); ++i) {
      Result<GoldenTensor> want = golden_.tensor(case_, prefix + factors_->tensors()[i].name);
      if (!want && want.error().kind == ErrorKind::not_found) continue;
      if (!want) return want.error();
      if (want->floats.size() != factors_->tensors()[i].numbers.size())
        return error(ErrorKind::corrupt, "case ", case_.name, ": ", prefix, printable(factors_->tensors()[i].name),
                     " has another number of elements than the adapter: want as many");
      body(i, want->floats);
    }
    return {};
  }

  Status compare_gradients() {
    TRY(const std::vector<std::vector<float>> gradients, optimizer_->gradients());
    return each_golden("grad64/", [&](size_t i, const std::vector<float>& want) {
      note(relative_norm(gradients[i], want), factors_->tensors()[i].name, errors_.gradient, errors_.gradient_of);
    });
  }

  Status compare_finals(const std::string& prefix) {
    return each_golden(prefix, [&](size_t i, const std::vector<float>& want) {
      note(relative_norm(factors_->tensors()[i].numbers, want), factors_->tensors()[i].name, errors_.final,
           errors_.final_of);
    });
  }

  static void note(double found, const std::string& name, std::optional<double>& largest, std::string& of) {
    if (largest && found <= *largest) return;
    largest = found;
    of = name;
  }

  const Golden& golden_;
  const GoldenCase& case_;
  const TrainingGolden training_;
  uint32_t targets_ = 0;
  ThreadPool pool_{1};  // of the optimizer; goldens have few numbers
  std::unique_ptr<TrainedFactors> factors_;
  std::unique_ptr<TrainingStep> step_;
  std::unique_ptr<FactorOptimizer> optimizer_;
  std::vector<double> together_;
  TrainErrors errors_;
};

}  // namespace

Result<TrainErrors> train_case(const Model& model, const Golden& golden, const GoldenCase& golden_case, Device& device,
                               Budget& budget, Arithmetic arithmetic) {
  TRY(TrainingGolden training, read_training(golden_case.training, cat("case ", golden_case.name)));
  return CaseTrainer(golden, golden_case, std::move(training)).run(model, device, budget, arithmetic);
}

std::vector<std::string> missed_bars(const TrainErrors& errors) {
  std::vector<std::string> misses;
  const auto hold = [&](const std::string& what, std::optional<double> found, double bar) {
    if (found && !(*found <= bar)) misses.push_back(cat(what, ": ", *found, ": want at most ", bar));
  };
  hold(cat("gradient of ", printable(errors.gradient_of)), errors.gradient, kGradientBar);
  hold("loss of a step", errors.loss, kLossBar);
  hold(cat("final ", printable(errors.final_of)), errors.final, kFinalBar);
  if (!errors.gradient && !errors.final)
    misses.emplace_back("the golden has neither gradients nor final factors of this adapter: want some");
  hold("loss of a step, a sequence at a time", errors.accumulated, kAccumulatedBar);
  return misses;
}

}  // namespace sluice
