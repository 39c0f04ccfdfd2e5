// A device that is asked for something else than its caller asks for.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "device/device.h"

namespace sluice {

class ChangedRequests : public Device {
 public:
  ChangedRequests(std::unique_ptr<Device> device, std::function<void(PlanRequest&)> change)
      : device_(std::move(device)), change_(std::move(change)) {}
  DeviceInfo info() const override { return device_->info(); }
  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override {
    PlanRequest changed = request;
    change_(changed);
    return device_->plan(changed);
  }
  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    return device_->place(std::move(plan), weights, budget);
  }

 private:
  std::unique_ptr<Device> device_;
  std::function<void(PlanRequest&)> change_;
};

}  // namespace sluice
