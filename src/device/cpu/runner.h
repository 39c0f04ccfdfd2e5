// The CPU's runner: computes a step's dispatches in order within start(), up to the end or to missing experts; of a
// step that is played in pieces each poll() computes the dispatches up to a number of flops. Behind a `route` it
// reports missing experts, which can be read while the ops up to the op `experts` are computed. That op then computes
// the experts in slots, and stops for the others.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "device/cpu/executor.h"
#include "device/expert_stretches.h"
#include "device/measured.h"
#include "graph/cost.h"

namespace sluice::cpu {

class CpuRunner final : public Runner, private ExpertMemory, private OpTimer {
 public:
  CpuRunner(std::unique_ptr<CpuPlan> plan, Memory memory, ThreadPool& pool, uint64_t piece_flops)
      : plan_(std::move(plan)),
        memory_(std::move(memory)),
        pool_(pool),
        executor_(*plan_, memory_, pool),
        piece_flops_(piece_flops),
        slots_(plan_->request().expert_slots.count) {
    if (plan_->request().repack == Repack::first) memory_.packed().pack(plan_->packed_bytes(), pool);
  }

  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override;
  void resume(Ticket stopped) override;
  Ticket copy_page(uint32_t group, uint32_t from, uint32_t to) override;
  Ticket read_page(uint32_t group, uint32_t page, std::span<std::byte> into) override;
  Ticket write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) override;
  std::vector<std::span<std::byte>> page_memory(uint32_t group, uint32_t page) override;
  ExpertMemory* expert_memory() override { return slots_.size() == 0 ? nullptr : this; }
  MeasuredRunner* measured() override { return this; }
  std::optional<Completion> poll() override;

 private:
  // What the work of an op follows from.
  struct Pieces {
    CostFacts facts;
    StepWork work;

    uint64_t flops(const Dispatch& dispatch) const;
  };
  // A running step: its place among its dispatches, and the completion so far.
  struct Flight {
    Completion found{};
    std::vector<ReadRequest> reads{};
    StartOptions options{};
    std::optional<Pieces> pieces{};  // none: it is played whole
    bool stopped = false;            // until it is resumed
    const std::vector<Dispatch>* order = nullptr;
    size_t next = 0;
    NanosecondClock clock = nullptr;  // null: its ops are not timed
    std::vector<OpTime> op_times{};
    uint64_t nanoseconds = 0;  // of the next dispatch so far
  };

  std::span<std::byte> slot_memory(uint32_t slot) override { return memory_.slot(slot); }
  Ticket fill(uint32_t slot, ExpertId expert, std::span<const std::byte* const> pieces) override;
  void release(uint32_t slot) override;

  const Program& program() const { return plan_->program(); }
  Ticket done();
  void advance();
  bool play(const Dispatch& dispatch);
  bool is_streamed(uint32_t op) const;
  void look_at_choice(uint32_t op);
  void stop();
  std::optional<NonFinite> find_non_finite(uint32_t op) const;
  void read(const ReadRequest& request) const;

  std::unique_ptr<CpuPlan> plan_;
  Memory memory_;
  ThreadPool& pool_;
  Executor executor_;
  uint64_t piece_flops_;
  SlotTable slots_;
  std::optional<Flight> flight_;  // the step that has stopped or is being computed
  std::deque<Completion> finished_;
  Ticket last_ticket_ = 0;
};

}  // namespace sluice::cpu
