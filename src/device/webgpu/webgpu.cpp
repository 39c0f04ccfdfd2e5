#include "device/webgpu/webgpu.h"

#include <algorithm>

#include "device/placing.h"
#include "device/webgpu/runner.h"
#include "graph/op_check.h"

namespace sluice {
namespace webgpu {
namespace {

// Of the largest caches a small part, and enough copies that beginning them takes no time beside.
constexpr uint64_t kCopiedBytes = uint64_t{256} << 20;
constexpr uint32_t kCopies = 8;

class HostedDevice final : public WebGpuDevice {
 public:
  explicit HostedDevice(std::unique_ptr<HostFactory> factory) : factory_(std::move(factory)) {}

  DeviceInfo info() const override {
    return {.name = "webgpu", .description = factory_->adapter().description, .memory = Domain::device};
  }

  double measure_copying(uint64_t (*clock)()) override {
    const Result<std::shared_ptr<Host>> opened = working_host();
    if (!opened || !(*opened)->waits()) return 0;
    Host& host = **opened;
    const uint64_t bytes = std::min(host.adapter().buffer_bytes / 4 * 4, kCopiedBytes);
    const BufferId from = host.buffer(bytes, BufferUse::storage), to = host.buffer(bytes, BufferUse::storage);
    CommandStream copies;
    for (uint32_t i = 0; i < kCopies; ++i) copies.copy({.buffer = from, .bytes = bytes}, to, 0);
    const auto nanoseconds_of_all = [&] {
      const uint64_t began = clock();
      const HostTicket ticket = host.submit(copies, {});
      while (!host.poll(ticket)) {
      }
      return clock() - began;
    };
    nanoseconds_of_all();  // the first use of the buffers
    const uint64_t nanoseconds = nanoseconds_of_all();
    host.drop_buffer(from);
    host.drop_buffer(to);
    if (host.failure() || nanoseconds == 0) return 0;
    return 2e9 * static_cast<double>(bytes) * kCopies / static_cast<double>(nanoseconds);
  }

  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override {
    TRY(std::unique_ptr<WebGpuPlan> plan, WebGpuPlan::make(request, factory_->adapter()));
    return std::unique_ptr<Plan>(std::move(plan));
  }

  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    std::unique_ptr<WebGpuPlan> own(static_cast<WebGpuPlan*>(plan.release()));
    TRY(std::vector<TensorSource> sources, find_planned(own->request(), weights));
    TRY(std::vector<Reservation> reservations, reserve_planned(budget, own->memory()));
    TRY(std::shared_ptr<Host> host, working_host());
    auto placed = std::make_shared<Placed>(*own, std::move(host), sources);
    if (placed->host().waits()) {
      while (!placed->full()) placed->fill(kPieceBytes);
      TRY_STATUS(placed->host().settle());
    } else {
      loading_.push_back(placed);
    }
    return std::unique_ptr<Runner>(
        std::make_unique<WebGpuRunner>(std::move(own), std::move(sources), std::move(reservations), std::move(placed)));
  }

  Result<Loaded> load(uint64_t bytes) override {
    Loaded loaded;
    for (const std::weak_ptr<Placed>& one : loading_) {
      const std::shared_ptr<Placed> placed = one.lock();
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
  // One host for all, so that pipelines are made once; a new one after a failure.
  Result<std::shared_ptr<Host>> working_host() {
    if (host_ == nullptr || host_->failure()) {
      TRY(std::unique_ptr<Host> opened, factory_->open());
      host_ = std::move(opened);
    }
    return host_;
  }

  std::unique_ptr<HostFactory> factory_;
  std::shared_ptr<Host> host_;
  std::vector<std::weak_ptr<Placed>> loading_;
};

}  // namespace
}  // namespace webgpu

std::unique_ptr<WebGpuDevice> make_webgpu_device(std::unique_ptr<webgpu::HostFactory> factory) {
  return std::make_unique<webgpu::HostedDevice>(std::move(factory));
}

}  // namespace sluice
