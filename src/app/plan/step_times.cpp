#include "app/plan/step_times.h"

#include <algorithm>
#include <map>
#include <vector>

#include "app/bench/metered_device.h"
#include "app/plan/simulated_disk.h"
#include "base/threads.h"
#include "device/measured.h"
#include "engine/experts/expert_store.h"
#include "engine/step_fill.h"
#include "graph/ops/sample.h"

namespace sluice {
namespace {

// Seconds of warm-up steps, and of steps that count; the least number of each.
constexpr double kWarmSeconds = 0.2, kSeconds = 0.4;
constexpr size_t kLeastSteps = 3;

double seconds() { return 1e-9 * static_cast<double>(nanoseconds()); }

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Expert memory with the slots from `first` on.
class LastSlots final : public ExpertMemory {
 public:
  LastSlots(ExpertMemory& all, uint32_t first) : all_(all), first_(first) {}
  std::span<std::byte> slot_memory(uint32_t slot) override { return all_.slot_memory(first_ + slot); }
  uint64_t packed_bytes() const override { return all_.packed_bytes(); }
  void pack(ExpertId expert, uint32_t part, std::span<const std::byte* const> pieces,
            std::span<std::byte> into) const override {
    all_.pack(expert, part, pieces, into);
  }
  Ticket fill(uint32_t slot, ExpertId expert, std::span<const std::byte* const> pieces) override {
    return all_.fill(first_ + slot, expert, pieces);
  }
  void release(uint32_t slot) override { all_.release(first_ + slot); }

 private:
  ExpertMemory& all_;
  uint32_t first_;
};

// Plays one step again and again.
class Player {
 public:
  Player(Runner& runner, const StepBuffer& step, ValueId sample, uint32_t slots)
      : runner_(runner), step_(step), sample_(sample), slots_(slots) {}

  // Seconds of a step that finds its experts. Missing ones are put into slots without pieces, which takes no time.
  Result<double> play_whole() {
    next_ = 0;
    return play([&](const Completion& stopped) -> Status {
      for (const ExpertId& missing : stopped.missing) {
        chosen_[missing.op].insert(missing.expert);
        runner_.expert_memory()->release(next_);
        runner_.expert_memory()->fill(next_, missing, {});
        next_ = (next_ + 1) % slots_;
      }
      return {};
    });
  }

  // Seconds of a step in which every layer lacks `lacking` experts, which `open` reads. Comes after play_whole(), which
  // learns the chosen experts. 0: there are too few slots for the experts that are not lacking.
  template <class Open>
  Result<double> play_lacking(uint32_t lacking, const ExpertPlaces& places, Budget& budget, const Open& open) {
    ExpertMemory& memory = *runner_.expert_memory();
    uint32_t held = 0;
    for (uint32_t slot = 0; slot < slots_; ++slot) memory.release(slot);
    for (const auto& [op, experts] : chosen_) {
      size_t left = experts.size();
      for (const uint32_t expert : experts) {
        if (left-- <= lacking) break;
        if (held + lacking >= slots_) return 0.0;
        memory.fill(held++, {op, expert}, {});
      }
    }
    if (held + lacking > slots_) return 0.0;
    LastSlots last(memory, held);
    TRY(ReadRoom room, ReadRoom::take(places.slot_bytes(), memory.packed_bytes(), lacking, budget));
    TRY(auto reads, open());
    ExpertStore store(places, lacking, last, std::move(room), std::move(reads),
                      make_replacement(ReplacementKind::next_use, {places.layers(), places.experts()}));
    return play([&](Completion& stopped) -> Status {
      // The store knows only the missing experts, so the others are left out.
      if (!stopped.used.empty() && !stopped.missing.empty()) {
        ExpertUse use{.op = stopped.missing.front().op};
        for (const ExpertId& missing : stopped.missing) use.experts.push_back(missing.expert);
        stopped.used = {std::move(use)};
      }
      store.note(stopped);
      for (;;) {
        TRY(const bool ready, store.advance(/*wait=*/true));
        if (ready) break;
      }
      store.resumed();
      return {};
    });
  }

 private:
  template <class Bring>
  Result<double> play(const Bring& bring) {
    std::vector<double> times;
    for (const double lasting : {kWarmSeconds, kSeconds}) {
      times.clear();
      for (const double end = seconds() + lasting; times.size() < kLeastSteps || seconds() < end;) {
        const double began = seconds();
        TRY_STATUS(play_once(bring));
        times.push_back(seconds() - began);
      }
    }
    return median(std::move(times));
  }

  template <class Bring>
  Status play_once(const Bring& bring) {
    const ReadRequest read{sample_, std::as_writable_bytes(std::span(&result_, 1))};
    const Ticket ticket = runner_.start(step_, {&read, 1});
    for (;;) {
      std::optional<Completion> completion = runner_.poll();
      if (!completion) wait_a_moment();
      if (!completion || completion->ticket != ticket) continue;
      if (!completion->stopped) return std::move(completion->status);
      TRY_STATUS(bring(*completion));
      runner_.resume(ticket);
    }
  }

  Runner& runner_;
  const StepBuffer& step_;
  ValueId sample_;
  SampleResult result_;
  uint32_t slots_, next_ = 0;
  std::map<uint32_t, std::set<uint32_t>> chosen_;  // experts, by op
};

// A layer's wait for one missing expert, and for each further one.
Status play_misses(Player& player, const MemoryPlan& plan, const ExpertPlaces& places, Machine& machine,
                   const ForecastSources& sources, StepTimes& played) {
  if (!sources.disk && sources.header_only) return {};
  const auto open = [&]() -> Result<std::unique_ptr<ReadQueue>> {
    if (sources.disk) return std::unique_ptr<ReadQueue>(std::make_unique<SimulatedDisk>(*sources.disk));
    return open_read_queue(places.paths());
  };
  const auto waited = [&](uint32_t lacking) -> Result<double> {
    TRY(const double step, player.play_lacking(lacking, places, machine.budget, open));
    return std::max(step - played.step_seconds, 0.0) / places.layers();
  };
  const uint32_t used = plan.experts.used;
  TRY(const double all, waited(used));
  TRY(const double one, waited(1));
  played.reads = true;
  played.first_seconds = one > 0 ? one : all / used;
  played.next_seconds = used == 1 ? 0 : std::max(all - played.first_seconds, 0.0) / (used - 1);
  return {};
}

}  // namespace

Result<StepTimes> time_steps_without_weights(const MemoryPlan& plan, const WeightFiles& files, Machine& machine,
                                             EngineOptions options, const ForecastSources& sources) {
  const TextModel& model = *plan.model;
  options.prompt_chunk = plan.prompt_chunk;
  std::optional<ExpertPlaces> places;
  ExpertSlots slots;
  if (plan.streams()) {
    TRY(places, ExpertPlaces::find(model.program, *model.weights, files));
    slots = {.count = static_cast<uint32_t>(plan.slots()), .bytes = places->slot_bytes()};
  }
  TRY(PlannedText planned, plan_text(model, *machine.device, machine.budget, options, slots));
  TRY(const TextPorts ports, find_ports(model.program));
  StepBuffer step(model.program, planned.layout.maxima);
  fill_alone(step, ports, TokenClass::decode, 1, std::min(sources.depth + 1, planned.layout.context), model.vocabulary);
  std::unique_ptr<Runner> runner;
  if (MeasuredDevice* const measured = machine.device->measured(); measured != nullptr)
    TRY_ASSIGN(runner, measured->place_without_weights(std::move(planned.plan), *model.weights, machine.budget));
  if (runner == nullptr)
    return error(ErrorKind::unsupported, machine.device->info().name, ": plays no steps without weights");
  Player player(*runner, step, ports.sample, slots.count);
  StepTimes played;
  TRY(played.step_seconds, player.play_whole());
  if (MeasuredRunner* const measured = runner->measured(); measured != nullptr)
    if (const auto counts = measured->dispatch_counts()) played.dispatches = counts->token;
  if (places) TRY_STATUS(play_misses(player, plan, *places, machine, sources, played));
  return played;
}

}  // namespace sluice
