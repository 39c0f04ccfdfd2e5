#include "app/bench/metered_device.h"

#include <algorithm>
#include <chrono>

#include "device/forwarding_runner.h"

namespace sluice {

uint64_t nanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}
double seconds_since(uint64_t begin) { return static_cast<double>(nanoseconds() - begin) * 1e-9; }

Peaks peaks_of(Device& device) {
  MeasuredDevice* const measured = device.measured();
  return measured == nullptr ? Peaks() : measured->measure_peaks(nanoseconds);
}

double copying_bandwidth(Device& device) {
  MeasuredDevice* const measured = device.measured();
  return measured == nullptr ? 0 : measured->measure_copying(nanoseconds);
}

// A group's pages hold its states' keys and values, in the proportion of their widths.
void Meter::take(const PlanRequest& request, const Plan& plan) {
  const Program& program = *request.program;
  facts_.program = &program;
  facts_.formats.clear();
  for (const PlacedShape& weight : request.weights) facts_.formats.push_back(weight.format);
  const auto elements = [](const StateDecl& state, StateKind kind) {
    const uint64_t position = uint64_t{state.heads} * (uint64_t{state.key_width} + state.value_width);
    return static_cast<double>(kind == StateKind::slots ? state.slot_elements() : position);
  };
  std::vector<double> of_group(program.groups.size());
  for (const StateDecl& state : program.states)
    of_group[state.group] += elements(state, program.groups[state.group].kind);
  facts_.state_bytes.clear();
  for (const StateDecl& state : program.states) {
    const StateKind kind = program.groups[state.group].kind;
    const double page =
        static_cast<double>(plan.page_bytes(state.group)) * elements(state, kind) / of_group[state.group];
    facts_.state_bytes.push_back(kind == StateKind::slots ? page : page / kPagePositions);
  }
}

class MeteredRunner final : public ForwardingRunner {
 public:
  MeteredRunner(std::unique_ptr<Runner> runner, Meter& meter) : ForwardingRunner(std::move(runner)), meter_(meter) {}

  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override {
    MeasuredRunner* const measured = runner().measured();
    if (measured != nullptr) measured->time_ops(meter_.time_ops ? nanoseconds : nullptr);
    const Ticket ticket = runner().start(step, reads, options);
    meter_.steps_.push_back({ticket, step.token_class(), StepWork::of(step), {}, {}});
    return ticket;
  }
  std::optional<Completion> poll() override {
    std::optional<Completion> completion = runner().poll();
    if (!completion) return completion;
    MeasuredRunner* const measured = runner().measured();
    std::vector<OpTime> op_times;
    if (measured != nullptr && !completion->stopped) op_times = measured->take_op_times(completion->ticket);
    const bool uses = meter_.keep_uses && !completion->used.empty();
    if (op_times.empty() && !uses) return completion;
    const auto step = std::ranges::find(meter_.steps_, completion->ticket, &MeteredStep::ticket);
    if (step == meter_.steps_.end()) return completion;
    if (!op_times.empty()) step->op_times = std::move(op_times);
    if (uses) step->used.insert(step->used.end(), completion->used.begin(), completion->used.end());
    return completion;
  }

 private:
  Meter& meter_;
};

Result<std::unique_ptr<Plan>> MeteredDevice::plan(const PlanRequest& request) const {
  TRY(std::unique_ptr<Plan> plan, device_.plan(request));
  meter_.take(request, *plan);
  return plan;
}

std::unique_ptr<Runner> MeteredDevice::metered(std::unique_ptr<Runner> runner) {
  return std::make_unique<MeteredRunner>(std::move(runner), meter_);
}

}  // namespace sluice
