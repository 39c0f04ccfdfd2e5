// A runner that gives every call to another one. What stands between an engine and a device, to measure or to imitate,
// overrides the calls that it cares for.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"

namespace sluice {

class ForwardingRunner : public Runner {
 public:
  explicit ForwardingRunner(std::unique_ptr<Runner> runner) : runner_(std::move(runner)) {}

  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override {
    return runner_->start(step, reads, options);
  }
  Ticket copy_page(uint32_t group, uint32_t from, uint32_t to) override { return runner_->copy_page(group, from, to); }
  Ticket read_page(uint32_t group, uint32_t page, std::span<std::byte> into) override {
    return runner_->read_page(group, page, into);
  }
  Ticket write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) override {
    return runner_->write_page(group, page, from);
  }
  std::vector<std::span<std::byte>> page_memory(uint32_t group, uint32_t page) override {
    return runner_->page_memory(group, page);
  }
  void reload(WeightId weight, uint32_t first, uint32_t matrices) override { runner_->reload(weight, first, matrices); }
  ExpertMemory* expert_memory() override { return runner_->expert_memory(); }
  TrainedMemory* trained_memory() override { return runner_->trained_memory(); }
  void resume(Ticket stopped) override { runner_->resume(stopped); }
  MeasuredRunner* measured() override { return runner_->measured(); }
  std::optional<Completion> poll() override { return runner_->poll(); }

 protected:
  Runner& runner() { return *runner_; }

 private:
  std::unique_ptr<Runner> runner_;
};

}  // namespace sluice
