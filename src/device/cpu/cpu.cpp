#include "device/cpu/cpu.h"

#include <algorithm>
#include <numeric>

#include "device/cpu/runner.h"
#include "graph/op_check.h"

namespace sluice {
namespace cpu {
namespace {

Status check_weight(const Kernels& kernels, const WeightDecl& decl, const PlacedShape& placed) {
  const FormatInfo& format = format_info(placed.format);
  if (placed.shape != decl.shape)
    return error(ErrorKind::invalid, "weight ", decl.name, ": found ", describe(placed.shape), ": want ",
                 describe(decl.shape));
  if (kernels.formats[static_cast<int>(placed.format)].product == nullptr && !placed.in_parts)
    return error(ErrorKind::unsupported, "weight ", decl.name, ": found format ", format.name,
                 ": want one that the CPU computes with");
  if (decl.shape.columns % format.block_elements != 0)
    return error(ErrorKind::invalid, "weight ", decl.name, ": found ", decl.shape.columns, " columns of ", format.name,
                 ": want a multiple of ", format.block_elements);
  return {};
}

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

// What the caches would need.
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

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options) : pool_(*options.pool), simd_(simd_info(options.limit)) {}

  DeviceInfo info() const override {
    const uint32_t threads = pool_.threads();
    return {
        .name = "cpu",
        .description = cat(processor_name(), ", ", simd_.title, ", ", threads, threads == 1 ? " thread" : " threads"),
        .classes_bit_equal = true,
        .expert_slots = true};
  }

  Peaks measure_peaks(uint64_t (*clock)()) const override {
    return {measure(simd_.kernels->peak_f32, clock), measure(simd_.kernels->peak_integers, clock)};
  }

  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override {
    const Program& program = *request.program;
    CHECK(request.weights.size() == program.weights.size() && request.pages.size() == program.groups.size());
    for (size_t i = 0; i < program.weights.size(); ++i)
      TRY_STATUS(check_weight(*simd_.kernels, program.weights[i], request.weights[i]));
    TRY_STATUS(check_cache(*simd_.kernels, request));
    if (!cache_bytes(request).fits(uint64_t{1} << 62))
      return error(ErrorKind::out_of_memory, "state: found pages beyond 62 bits of bytes: want fewer");
    return std::unique_ptr<Plan>(std::make_unique<CpuPlan>(request, simd_, pool_.threads()));
  }

  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    std::unique_ptr<CpuPlan> own(static_cast<CpuPlan*>(plan.release()));
    TRY(Memory memory, Memory::take(*own, weights, budget));
    return std::unique_ptr<Runner>(std::make_unique<CpuRunner>(std::move(own), std::move(memory), pool_));
  }

 private:
  // Flops a second of all threads together.
  double measure(const PeakKernel& kernel, uint64_t (*clock)()) const {
    constexpr uint64_t kNanoseconds = 20'000'000;
    constexpr size_t kRounds = 4096;
    std::vector<double> rates(pool_.threads());
    pool_.parallel(rates.size(), 1, [&](const Share& share) {
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
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  CHECK(options.pool != nullptr);
  CHECK(std::ranges::count(simd_levels(), options.limit) == 1);
  return std::make_unique<cpu::CpuDevice>(options);
}

}  // namespace sluice
