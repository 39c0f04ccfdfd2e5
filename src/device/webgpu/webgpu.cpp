#include "device/webgpu/webgpu.h"

#include <algorithm>

#include "device/measured.h"
#include "device/placing.h"
#include "device/webgpu/kernels/copying.h"
#include "device/webgpu/runner.h"
#include "graph/op_check.h"

namespace sluice {
namespace webgpu {
namespace {

// Rows of a prompt step. On an H200 with matrix units prompts of 4,096 tokens are 1.5 to 2.0 times as fast in steps of
// 4,096 rows as in those of 512, since each step takes some milliseconds more, whatever its rows (docs/benchmarks.md).
// Other GPUs were not measured, and the activations of so many rows take memory.
uint32_t prompt_rows(const Adapter& adapter) {
  constexpr uint64_t kLargeMemory = uint64_t{64} << 30;
  const bool is_large = adapter.is_gpu && !adapter.shares_memory && adapter.memory_bytes >= kLargeMemory;
  return is_large && adapter.matrices ? 4096 : DeviceInfo().prompt_rows;
}

class HostedDevice final : public WebGpuDevice, private MeasuredDevice {
 public:
  explicit HostedDevice(std::unique_ptr<HostFactory> factory) : factory_(std::move(factory)) {}

  DeviceInfo info() const override {
    const Adapter& adapter = factory_->adapter();
    return {.name = "webgpu",
            .description = adapter.description,
            .memory = Domain::device(),
            .memory_bytes = adapter.memory_bytes,
            .shares_memory = adapter.shares_memory,
            .prompt_rows = prompt_rows(adapter),
            .expert_slots = true,
            .trains_factors = true};
  }

  const Adapter& adapter() const override { return factory_->adapter(); }

  MeasuredDevice* measured() override { return this; }

  double measure_copying(NanosecondClock clock) override {
    const Result<std::shared_ptr<Host>> opened = working_host();
    if (!opened || !(*opened)->waits()) return 0;
    Host& host = **opened;
    double found = 0;
    {
      const Copying copying(host);
      if (!host.settle()) return 0;
      const auto nanoseconds_of_all = [&] {
        const uint64_t began = clock();
        const HostTicket ticket = host.submit(copying.commands(), {});
        while (!host.poll(ticket)) {
        }
        return clock() - began;
      };
      nanoseconds_of_all();
      const uint64_t nanoseconds = std::max<uint64_t>(std::min(nanoseconds_of_all(), nanoseconds_of_all()), 1);
      found = 1e9 * static_cast<double>(copying.bytes()) / static_cast<double>(nanoseconds);
    }
    // Freeing its buffers takes some 20 ms on an H200, which would be a part of the next step's time.
    return host.settle() ? found : 0;
  }

  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override {
    TRY(std::unique_ptr<WebGpuPlan> plan, WebGpuPlan::make(info(), request, factory_->adapter()));
    return std::unique_ptr<Plan>(std::move(plan));
  }

  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    const auto load = [&](const std::shared_ptr<PlanObjects>& placed) -> Status {
      if (!placed->host().waits()) {
        loading_.push_back(placed);
        return {};
      }
      while (!placed->full()) placed->fill(kPieceBytes);
      return placed->host().settle();
    };
    return runner_of(std::move(plan), weights, budget, Matrices::filled, load);
  }

  Result<std::unique_ptr<Runner>> place_without_weights(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                                        Budget& budget) override {
    return runner_of(std::move(plan), weights, budget, Matrices::shared,
                     [](const std::shared_ptr<PlanObjects>& placed) { return placed->host().settle(); });
  }

  Result<Loaded> load(uint64_t bytes) override {
    Loaded loaded;
    for (const std::weak_ptr<PlanObjects>& one : loading_) {
      const std::shared_ptr<PlanObjects> placed = one.lock();
      if (placed == nullptr) continue;
      const uint64_t before = placed->filled_bytes();
      while (!placed->full() && placed->filled_bytes() - before < bytes) placed->fill(kPieceBytes);
      bytes -= std::min(bytes, placed->filled_bytes() - before);
      if (const std::optional<Error>& failure = placed->host().failure()) return *failure;
      loaded.bytes += placed->filled_bytes();
      loaded.of += placed->all_bytes();
    }
    return loaded;
  }

 private:
  template <class Load>
  Result<std::unique_ptr<Runner>> runner_of(std::unique_ptr<Plan> plan, const WeightSource& weights, Budget& budget,
                                            Matrices matrices, const Load& load) {
    std::unique_ptr<WebGpuPlan> own(static_cast<WebGpuPlan*>(plan.release()));
    TRY(std::vector<TensorSource> sources, find_planned(own->request(), weights));
    const std::vector<MemoryLine> lines =
        matrices == Matrices::filled ? own->memory() : own->memory_with(PlanObjects::shared_bytes(*own));
    TRY(std::vector<Reservation> reservations, reserve_planned(budget, lines));
    TRY(std::shared_ptr<Host> host, working_host());
    auto placed = std::make_shared<PlanObjects>(*own, std::move(host), sources, matrices);
    TRY_STATUS(load(placed));
    return std::unique_ptr<Runner>(
        std::make_unique<WebGpuRunner>(std::move(own), std::move(sources), std::move(reservations), std::move(placed)));
  }
  // All plans share one host, so that pipelines are made once. After a failure a new host is opened.
  Result<std::shared_ptr<Host>> working_host() {
    if (host_ == nullptr || host_->failure()) {
      TRY(std::unique_ptr<Host> opened, factory_->open());
      host_ = std::move(opened);
    }
    return host_;
  }

  std::unique_ptr<HostFactory> factory_;
  std::shared_ptr<Host> host_;
  std::vector<std::weak_ptr<PlanObjects>> loading_;
};

}  // namespace
}  // namespace webgpu

std::unique_ptr<WebGpuDevice> make_webgpu_device(std::unique_ptr<webgpu::HostFactory> factory) {
  return std::make_unique<webgpu::HostedDevice>(std::move(factory));
}

}  // namespace sluice
