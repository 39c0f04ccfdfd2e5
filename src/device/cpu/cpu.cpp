#include "device/cpu/cpu.h"

#include <algorithm>
#include <numeric>

#include "device/cpu/runner.h"
#include "device/placing.h"
#include "graph/op_check.h"

namespace sluice {
namespace cpu {
namespace {

Status check_cache(const Kernels& kernels, const PlanRequest& request) {
  if (!request.cache) return {};
  if (cache_kernels(kernels, *request.cache) == nullptr)
    return error(ErrorKind::unsupported, "cache: found elements of ", format_name(*request.cache),
                 ": want f32, f16 or bf16");
  if (request.arithmetic == Arithmetic::exact && request.cache != Format::f32)
    return error(ErrorKind::invalid, "cache: found elements of ", format_name(*request.cache),
                 " in exact arithmetic: want f32");
  return {};
}

// The most bytes that the caches can take.
CheckedSize cache_bytes(const PlanRequest& request) {
  CheckedSize bytes = 0;
  for (const StateDecl& state : request.program->states) {
    const bool slots = request.program->groups[state.group].kind == StateKind::slots;
    const CheckedSize page = slots ? CheckedSize(state.slot_elements()) + 64
                                   : CheckedSize(state.heads) * kPagePositions *
                                         (CheckedSize(state.key_width) + cache_width(state.value_width));
    bytes += CheckedSize(request.pages[state.group]) * page * sizeof(float);
  }
  return bytes;
}

class CpuDevice final : public Device, private MeasuredDevice {
 public:
  explicit CpuDevice(const CpuOptions& options)
      : pool_(*options.pool), simd_(simd_info(options.limit)), piece_flops_(options.piece_flops) {}

  DeviceInfo info() const override {
    const uint32_t threads = pool_.threads();
    return {
        .name = "cpu",
        .description = cat(processor_name(), ", ", simd_.title, ", ", threads, threads == 1 ? " thread" : " threads"),
        .classes_bit_equal = true,
        .expert_slots = true,
        .plays_in_pieces = true};
  }

  MeasuredDevice* measured() override { return this; }
  Peaks measure_peaks(NanosecondClock clock) const override {
    return {measure(simd_.kernels->peak_f32, clock), measure(simd_.kernels->peak_integers, clock)};
  }

  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override {
    const auto takes = [&](WeightId id) {
      const PlacedShape& placed = request.weights[id];
      return placed.in_parts || simd_.kernels->formats[static_cast<int>(placed.format)].product != nullptr;
    };
    TRY_STATUS(check_planned(info(), request, "one that the CPU computes with", takes));
    TRY_STATUS(check_cache(*simd_.kernels, request));
    if (!cache_bytes(request).fits(uint64_t{1} << 62))
      return error(ErrorKind::out_of_memory, "state: found pages beyond 62 bits of bytes: want fewer");
    return std::unique_ptr<Plan>(std::make_unique<CpuPlan>(request, simd_, pool_.threads()));
  }

  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    std::unique_ptr<CpuPlan> own(static_cast<CpuPlan*>(plan.release()));
    TRY(Memory memory, Memory::take(*own, weights, budget));
    return std::unique_ptr<Runner>(std::make_unique<CpuRunner>(std::move(own), std::move(memory), pool_, piece_flops_));
  }

 private:
  // Flops a second of all threads together.
  double measure(const PeakKernel& kernel, NanosecondClock clock) const {
    constexpr uint64_t kNanoseconds = 20'000'000;
    constexpr size_t kRounds = 4096;
    std::vector<double> rates(pool_.threads());
    pool_.parallel(rates.size(), 0, [&](const Share& share) {
      for (size_t i = share.first; i < share.last; ++i) {
        const uint64_t before = clock();
        uint64_t flops = 0, passed = 0;
        for (; passed < kNanoseconds; passed = clock() - before)
          if (kernel.run(kRounds) > 0) flops += kRounds * kernel.round_flops;
        rates[i] = static_cast<double>(flops) / (static_cast<double>(passed) * 1e-9);
      }
    });
    return std::accumulate(rates.begin(), rates.end(), 0.0);
  }

  ThreadPool& pool_;
  const SimdInfo& simd_;
  uint64_t piece_flops_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  CHECK(options.pool != nullptr);
  CHECK(std::ranges::count(simd_levels(), options.limit) == 1);
  return std::make_unique<cpu::CpuDevice>(options);
}

}  // namespace sluice
