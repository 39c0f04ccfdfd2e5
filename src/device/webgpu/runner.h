// The WebGPU runner. Each step uploads only changed data, submits its commands and reads back only requested values.
// Steps with streamed experts are played in stretches (device/expert_stretches.h). An upload to a slot comes behind all
// earlier submissions in the GPU's queue.
//
// In a page a tower is placed in the middle of an answer, where nothing may wait. Its first step therefore begins when
// poll() has uploaded all weights, some of them at a time.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/threads.h"
#include "device/expert_stretches.h"
#include "device/measured.h"
#include "device/webgpu/plan_objects.h"

namespace sluice::webgpu {

class WebGpuRunner final : public Runner,
                           private ExpertMemory,
                           private TrainedMemory,
                           private StretchPlayer,
                           private MeasuredRunner {
 public:
  WebGpuRunner(std::unique_ptr<WebGpuPlan> plan, std::vector<TensorSource> weights,
               std::vector<Reservation> reservations, std::shared_ptr<PlanObjects> placed);

  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override;
  void resume(Ticket stopped) override;
  Ticket copy_page(uint32_t group, uint32_t from, uint32_t to) override;
  Ticket read_page(uint32_t group, uint32_t page, std::span<std::byte> into) override;
  Ticket write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) override;
  void reload(WeightId weight, uint32_t first, uint32_t matrices) override { placed_->reload(weight, first, matrices); }
  ExpertMemory* expert_memory() override { return stretches_.slots().size() == 0 ? nullptr : this; }
  TrainedMemory* trained_memory() override { return plan_->trained().pieces.empty() ? nullptr : this; }
  MeasuredRunner* measured() override { return this; }
  std::optional<Completion> poll() override;

 private:
  enum class Brings : uint8_t { end, choice, nothing };  // the end of a ticket; a choice for the running flight
  struct Started {
    Ticket ticket = 0;
    HostTicket host = 0;
    Brings brings = Brings::end;
    const StepBuffer* looked_at = nullptr;  // find_non_finite
    std::vector<uint32_t> flags{};
    std::vector<ExpertUse> used{};
  };
  // A step that is not yet submitted to its end.
  struct Flight {
    Started end{};  // for its last stretch
    std::vector<HostRead> reads{};
    const StepBuffer* step = nullptr;
    const Variant* variant = nullptr;
    uint32_t last_position = 0;
    uint32_t ahead = 0;  // positions that a row sees behind its own, at most
    size_t next = 0;     // dispatch
    bool add_gradients = false;
  };
  // A step that waits for the weights.
  struct Waiting {
    Ticket ticket = 0;
    const StepBuffer* step = nullptr;
    std::vector<ReadRequest> reads{};
    StartOptions options{};
    std::optional<HostTicket> upload{};  // ends when the last weights have arrived
  };

  std::span<std::byte> slot_memory(uint32_t /*slot*/) override { return {}; }
  uint64_t packed_bytes() const override { return plan_->expert_bytes(); }
  void pack(ExpertId expert, uint32_t part, std::span<const std::byte* const> pieces,
            std::span<std::byte> into) const override;
  Ticket fill(uint32_t slot, ExpertId expert, std::span<const std::byte* const> pieces) override;
  void release(uint32_t slot) override;

  void clear_gradients() override { has_gradients_ = false; }
  size_t sums() const override { return plan_->trained().sums; }
  Ticket sum_squares(std::span<float> sums) override;
  Ticket update(const FactorUpdate& update) override;
  Ticket read(TrainedTable table, std::span<const std::span<float>> into) override;
  void write(TrainedTable table, std::span<const std::span<const float>> from) override;
  void play_trained(TrainedWork work);
  // Calls f(piece, buffer, offset in bytes) for each piece of a table.
  template <class F>
  void each_trained(TrainedTable table, F&& f) const;

  const Program& program() const { return plan_->program(); }
  void begin(Ticket ticket, const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options);
  bool upload_weights();
  void upload_step(const StepBuffer& step);
  // Sets what the counts say of adapters: by the inputs "adapter_slots" and "adapter_scales" (graph/recorder.h).
  void count_adapters(const StepBuffer& step, StepCounts& counts) const;
  uint32_t positions_ahead(const StepBuffer& step) const;
  void upload_embedded(const StepBuffer& step);
  void embed(const HostEmbed& op, const StepBuffer& step);  // into embedded_, on several threads
  void add_adapter(const Embed& op, const StepBuffer& step, size_t row, std::span<float> to) const;
  std::optional<DispatchCounts> dispatch_counts() const override;

  bool play_to(uint32_t end) override;
  void play_present(uint32_t op, std::span<const uint32_t> slots) override;
  void submit_choice(ValueId choice, std::span<uint32_t> into) override;
  void submit_stretch() override;
  void submit_end(std::vector<ExpertUse> used) override;
  void play(size_t end);  // plays dispatches [flight_->next, end)
  void expect_next();     // expects a step like this one
  std::optional<NonFinite> find_non_finite(const Started& started) const;
  void submit(Started started, std::span<const HostRead> reads);
  Ticket submit(std::span<const HostRead> reads);
  // Calls f(state, offset of the page in the state's buffer, bytes) for the group's states, in the order of
  // read_page().
  template <class F>
  void each_state(uint32_t group, uint32_t page, F&& f) const;

  std::vector<Reservation> reservations_;  // the first member: released last
  std::unique_ptr<WebGpuPlan> plan_;
  std::vector<TensorSource> weights_;
  std::shared_ptr<PlanObjects> placed_;
  CommandStream commands_;
  std::vector<std::byte> uploaded_;       // the step's bytes on the GPU
  std::set<uint32_t> not_in_uploaded_{};  // sections of which it has other bytes, by their first words
  std::vector<float> embedded_;
  std::unique_ptr<ThreadPool> pool_;  // made by the first step that embeds many numbers
  ExpertStretches stretches_;
  std::optional<Waiting> waiting_;
  uint32_t arrived_ = 0;  // a word that is read behind an upload, to know when that has arrived
  std::optional<Flight> flight_;
  bool has_gradients_ = false;  // trained factors, since clear_gradients()
  std::deque<Started> started_;
  std::deque<Completion> ready_;  // poll() returns these first
  Ticket last_ticket_ = 0;
};

}  // namespace sluice::webgpu
