// A device that wraps another device and records its steps: rows, positions and, if asked, the time of each op. Plans,
// results and memory are the other device's.
#pragma once

#include <memory>
#include <vector>

#include "device/measured.h"
#include "graph/cost.h"

namespace sluice {

struct MeteredStep {
  Ticket ticket = 0;
  TokenClass token_class{};
  StepWork work;
  std::vector<OpTime> op_times;
  std::vector<ExpertUse> used;  // of experts that are read as they are chosen
};

// The record: the last placed program, and the steps since the last clear().
class Meter {
 public:
  bool time_ops = false;
  bool keep_uses = false;  // of experts

  const CostFacts& facts() const { return facts_; }
  void set_expert_shares(std::vector<double> shares) { facts_.expert_shares = std::move(shares); }
  const std::vector<MeteredStep>& steps() const { return steps_; }
  void clear() { steps_.clear(); }

 private:
  friend class MeteredDevice;
  friend class MeteredRunner;
  void take(const PlanRequest& request, const Plan& plan);

  CostFacts facts_;
  std::vector<MeteredStep> steps_;
};

// Nanoseconds of a clock that only goes forward.
uint64_t nanoseconds();
double seconds_since(uint64_t begin);  // of that clock

// Measured with that clock; 0: unknown.
Peaks peaks_of(Device& device);
double copying_bandwidth(Device& device);

// `device` and `meter` outlive it and its runners.
class MeteredDevice final : public Device {
 public:
  MeteredDevice(Device& device, Meter& meter) : device_(device), meter_(meter) {}

  DeviceInfo info() const override { return device_.info(); }
  MeasuredDevice* measured() override { return device_.measured(); }
  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override;
  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    TRY(std::unique_ptr<Runner> runner, device_.place(std::move(plan), weights, budget));
    return metered(std::move(runner));
  }

 private:
  std::unique_ptr<Runner> metered(std::unique_ptr<Runner> runner);

  Device& device_;
  Meter& meter_;
};

}  // namespace sluice
