// Plays steps: uploads what a step changed, then its commands, then what is read back.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "device/webgpu/placed.h"

namespace sluice::webgpu {

class WebGpuRunner final : public Runner {
 public:
  WebGpuRunner(std::unique_ptr<WebGpuPlan> plan, std::vector<TensorSource> weights,
               std::vector<Reservation> reservations, std::shared_ptr<Placed> placed)
      : reservations_(std::move(reservations)),
        plan_(std::move(plan)),
        weights_(std::move(weights)),
        placed_(std::move(placed)) {}

  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override;
  Ticket copy_page(uint32_t group, uint32_t from, uint32_t to) override;
  Ticket read_page(uint32_t group, uint32_t page, std::span<std::byte> into) override;
  Ticket write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) override;
  std::optional<DispatchCounts> dispatch_counts() const override;
  std::optional<Completion> poll() override;

 private:
  struct Started {
    Ticket ticket = 0;
    HostTicket host = 0;
    const StepBuffer* looked_at = nullptr;  // find_non_finite
    std::vector<uint32_t> flags{};
  };

  const Program& program() const { return plan_->program(); }
  void upload_step(const StepBuffer& step);
  void upload_embedded(const StepBuffer& step);
  void play(const Variant& variant, const StepBuffer& step);
  std::optional<NonFinite> non_finite(const Started& started) const;
  Ticket submit(std::span<const HostRead> reads);
  // f(state, offset of its page in its buffer, bytes) for the states of a group, in the order of read_page().
  template <class F>
  void each_state(uint32_t group, uint32_t page, F&& f) const;
  bool may_read(ValueId id) const;

  std::vector<Reservation> reservations_;  // given back last
  std::unique_ptr<WebGpuPlan> plan_;
  std::vector<TensorSource> weights_;
  std::shared_ptr<Placed> placed_;
  CommandStream commands_;
  std::vector<float> embedded_;
  std::deque<Started> started_;
  Ticket last_ticket_ = 0;
};

}  // namespace sluice::webgpu
