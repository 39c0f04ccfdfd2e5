#include "train/factor_optimizer.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

class HostOptimizer final : public FactorOptimizer {
 public:
  HostOptimizer(const OptimizerOptions& options, TrainedFactors& factors)
      : options_(options), factors_(factors), optimizer_(options, factors.tensors()) {}

  void clear_gradients() override { factors_.clear_gradients(); }

  void begin_update(double rate) override {
    norm_ = clip_gradients(factors_.gradients(), options_.clip, factors_.pool());
    if (!std::isfinite(norm_)) return;
    optimizer_.step(factors_.tensors(), factors_.gradients(), rate, factors_.pool());
    factors_.lay_out();
  }
  Result<std::optional<double>> poll_update() override { return std::optional(norm_); }
  Result<bool> poll_factors() override { return true; }

  Result<std::vector<std::vector<float>>> gradients() override {
    return std::vector<std::vector<float>>(factors_.gradients().begin(), factors_.gradients().end());
  }
  Result<State> state() override { return State{.means = optimizer_.means(), .squares = optimizer_.squares()}; }
  void restore(uint64_t steps, std::vector<std::vector<float>> means,
               std::vector<std::vector<float>> squares) override {
    optimizer_.restore(steps, std::move(means), std::move(squares));
  }

 private:
  const OptimizerOptions options_;
  TrainedFactors& factors_;
  Optimizer optimizer_;
  double norm_ = 0;
};

class DeviceOptimizer final : public FactorOptimizer {
 public:
  DeviceOptimizer(const OptimizerOptions& options, TrainedFactors& factors, TrainingStep& step)
      : options_(options), factors_(factors), step_(step), memory_(*step.runner().trained_memory()) {}

  void clear_gradients() override { memory_.clear_gradients(); }

  void begin_update(double rate) override {
    rate_ = rate;
    sums_.resize(memory_.sums());
    ticket_ = memory_.sum_squares(sums_);
  }

  Result<std::optional<double>> poll_update() override {
    TRY(const bool ended, poll());
    if (!ended) return std::optional<double>();
    double squares = 0;
    for (const float one : sums_) squares += one;
    const double norm = std::sqrt(squares);
    if (!std::isfinite(norm)) return std::optional(norm);
    const AdamStep adam = adam_step(options_, ++steps_, rate_);
    ticket_ = memory_.update({.clip = static_cast<float>(clip_factor(norm, options_.clip)),
                              .beta1 = static_cast<float>(options_.beta1),
                              .beta2 = static_cast<float>(options_.beta2),
                              .decay = static_cast<float>(adam.decay),
                              .rate = static_cast<float>(adam.rate),
                              .root = static_cast<float>(adam.root),
                              .eps = static_cast<float>(options_.eps)});
    is_ahead_ = true;
    return std::optional(norm);
  }

  Result<bool> poll_factors() override {
    if (!is_ahead_) return true;
    if (!reads_) begin_reading(TrainedTable::numbers);
    TRY(const bool ended, poll());
    if (!ended) return false;
    reads_ = is_ahead_ = false;
    std::vector<std::vector<float>> tensors = stored();
    for (size_t i = 0; i < tensors.size(); ++i) factors_.tensors()[i].numbers = std::move(tensors[i]);
    factors_.lay_out();
    step_.keep_factors();
    return true;
  }

  Result<std::vector<std::vector<float>>> gradients() override { return table(TrainedTable::gradients); }
  Result<State> state() override {
    TRY(means_, table(TrainedTable::means));
    TRY(squares_, table(TrainedTable::squares));
    return State{.means = means_, .squares = squares_};
  }

  void restore(uint64_t steps, std::vector<std::vector<float>> means,
               std::vector<std::vector<float>> squares) override {
    steps_ = steps;
    is_ahead_ = false;
    write(TrainedTable::means, means);
    write(TrainedTable::squares, squares);
  }

 private:
  // Whether the last call has ended.
  Result<bool> poll() {
    while (ticket_) {
      const std::optional<Completion> completion = step_.runner().poll();
      if (!completion) return false;
      TRY_STATUS(completion->status);
      if (completion->ticket == ticket_) ticket_.reset();
    }
    return true;
  }

  void make_room() {
    if (!numbers_.empty()) return;
    for (const std::vector<std::string>& group : factors_.groups())
      numbers_.emplace_back(factors_.laid_out(group.front()).size());
  }

  void begin_reading(TrainedTable which) {
    make_room();
    const std::vector<std::span<float>> into(numbers_.begin(), numbers_.end());
    ticket_ = memory_.read(which, into);
    reads_ = true;
  }

  std::vector<std::vector<float>> stored() {
    std::vector<TrainedFactors::Numbers> weights;
    weights.reserve(numbers_.size());
    for (size_t i = 0; i < numbers_.size(); ++i) weights.push_back({&factors_.groups()[i].front(), numbers_[i]});
    std::vector<std::vector<float>> tensors;
    for (const StoredFactor& one : std::as_const(factors_).tensors()) tensors.emplace_back(one.numbers.size());
    factors_.to_stored(weights, tensors);
    return tensors;
  }

  Status wait_for_numbers() override {
    for (;;) {
      TRY(const bool ended, poll());
      if (ended) return {};
      wait_a_moment();
    }
  }

  Result<std::vector<std::vector<float>>> table(TrainedTable which) {
    begin_reading(which);
    TRY_STATUS(wait_for_numbers());
    reads_ = false;
    return stored();
  }

  void write(TrainedTable which, std::span<const std::vector<float>> tensors) {
    make_room();
    std::vector<TrainedFactors::MutableNumbers> weights;
    weights.reserve(numbers_.size());
    for (size_t i = 0; i < numbers_.size(); ++i) weights.push_back({&factors_.groups()[i].front(), numbers_[i]});
    factors_.from_stored(tensors, weights);
    const std::vector<std::span<const float>> from(numbers_.begin(), numbers_.end());
    memory_.write(which, from);
  }

  const OptimizerOptions options_;
  TrainedFactors& factors_;
  TrainingStep& step_;
  TrainedMemory& memory_;
  uint64_t steps_ = 0;
  double rate_ = 0;
  std::optional<Ticket> ticket_;  // of a call that has not ended
  std::vector<float> sums_;
  std::vector<std::vector<float>> means_, squares_;  // of state()
  std::vector<std::vector<float>> numbers_;          // of a table that is read or written, by group
  bool is_ahead_ = false;                            // the device's numbers are newer than the factors'
  bool reads_ = false;
};

}  // namespace

bool FactorOptimizer::is_on_device(TrainedFactors& factors, const Device& device, const OptimizerOptions& options) {
  return options.adam && device.info().trains_factors && !factors.groups().empty();
}

std::unique_ptr<FactorOptimizer> FactorOptimizer::make(const OptimizerOptions& options, TrainedFactors& factors,
                                                       TrainingStep& step) {
  if (step.trains_on_device()) return std::make_unique<DeviceOptimizer>(options, factors, step);
  return std::make_unique<HostOptimizer>(options, factors);
}

Result<double> FactorOptimizer::update(double rate) {
  begin_update(rate);
  for (;;) {
    TRY(const std::optional<double> norm, poll_update());
    if (norm) {
      TRY_STATUS(wait_for_numbers());
      return *norm;
    }
    wait_a_moment();
  }
}

Status FactorOptimizer::take_factors() {
  for (;;) {
    TRY(const bool taken, poll_factors());
    if (taken) return {};
    wait_a_moment();
  }
}

}  // namespace sluice
