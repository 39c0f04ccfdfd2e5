#include "device/cpu/cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <numeric>

#include "device/cpu/executor.h"
#include "graph/op_check.h"
#include "graph/operands.h"

namespace sluice {
namespace cpu {
namespace {

class CpuRunner final : public Runner {
 public:
  CpuRunner(std::unique_ptr<CpuPlan> plan, Memory memory, ThreadPool& pool)
      : plan_(std::move(plan)), memory_(std::move(memory)), executor_(*plan_, memory_, pool) {}

  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override;
  Ticket copy_page(uint32_t group, uint32_t from, uint32_t to) override;
  Ticket read_page(uint32_t group, uint32_t page, std::span<std::byte> into) override;
  Ticket write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) override;
  std::vector<std::span<std::byte>> page_memory(uint32_t group, uint32_t page) override;
  std::optional<Completion> poll() override {
    if (finished_.empty()) return std::nullopt;
    Completion first = std::move(finished_.front());
    finished_.pop_front();
    return first;
  }

 private:
  const Program& program() const { return plan_->program(); }
  Ticket done(std::optional<NonFinite> non_finite = std::nullopt, std::vector<OpTime> op_times = {}) {
    finished_.push_back(
        {.ticket = ++last_ticket_, .non_finite = std::move(non_finite), .op_times = std::move(op_times)});
    return last_ticket_;
  }
  std::optional<NonFinite> run_looking();
  std::vector<OpTime> run_timed(uint64_t (*clock)());
  std::optional<NonFinite> find_non_finite(uint32_t op) const;
  bool may_read(ValueId id) const;
  void read(const ReadRequest& request) const;

  std::unique_ptr<CpuPlan> plan_;
  Memory memory_;
  Executor executor_;
  std::deque<Completion> finished_;
  Ticket last_ticket_ = 0;
};

Ticket CpuRunner::start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) {
  executor_.begin(step);
  std::optional<NonFinite> non_finite;
  std::vector<OpTime> op_times;
  if (options.find_non_finite)
    non_finite = run_looking();
  else if (options.clock != nullptr)
    op_times = run_timed(options.clock);
  else
    for (const Dispatch& dispatch : plan_->dispatches()) executor_.run(dispatch);
  for (const ReadRequest& request : reads) read(request);
  return done(std::move(non_finite), std::move(op_times));
}

std::vector<OpTime> CpuRunner::run_timed(uint64_t (*clock)()) {
  std::vector<OpTime> times;
  times.reserve(plan_->dispatches().size());
  uint64_t before = clock();
  for (const Dispatch& dispatch : plan_->dispatches()) {
    executor_.run(dispatch);
    const uint64_t after = clock();
    times.push_back({.first_op = dispatch.first_op, .end_op = dispatch.end_op, .nanoseconds = after - before});
    before = after;
  }
  return times;
}

// Op by op: within a block, one is to be named.
std::optional<NonFinite> CpuRunner::run_looking() {
  std::optional<NonFinite> first;
  for (uint32_t op = 0; op < program().ops.size(); ++op) {
    executor_.run(op);
    if (!first) first = find_non_finite(op);
  }
  return first;
}

std::optional<NonFinite> CpuRunner::find_non_finite(uint32_t op) const {
  std::optional<NonFinite> found;
  for_each_output(program().ops[op], [&](ValueId id) {
    const ValueType& type = program().values[id].type;
    if (found || type.element != Element::f32) return;
    const float* begin = memory_.read<float>(id);
    const float* end = begin + executor_.rows(id) * type.columns();
    const float* at = std::find_if_not(begin, end, [](float x) { return std::isfinite(x); });
    if (at == end) return;
    const uint64_t row = static_cast<uint64_t>(at - begin) / type.columns();
    found = NonFinite{.op = op,
                      .layer = program().layers[op],
                      .row = static_cast<uint32_t>(executor_.step_row(id, row)),
                      .what = std::string(op_name(program().ops[op]))};
  });
  return found;
}

bool CpuRunner::may_read(ValueId id) const {
  const auto is_id = [&](const NamedValue& named) { return named.value == id; };
  return std::any_of(program().outputs.begin(), program().outputs.end(), is_id) ||
         (plan_->request().traced && std::any_of(program().names.begin(), program().names.end(), is_id));
}

void CpuRunner::read(const ReadRequest& request) const {
  CHECK(may_read(request.value));
  const uint64_t bytes = executor_.rows(request.value) * program().values[request.value].type.columns() * 4;
  CHECK(request.into.size() == bytes);
  if (bytes > 0) std::memcpy(request.into.data(), memory_.read<std::byte>(request.value), bytes);
}

std::vector<std::span<std::byte>> CpuRunner::page_memory(uint32_t group, uint32_t page) {
  std::vector<std::span<std::byte>> pieces;
  memory_.for_each_piece(group, page, [&](std::span<std::byte> piece) { pieces.push_back(piece); });
  return pieces;
}

Ticket CpuRunner::copy_page(uint32_t group, uint32_t from, uint32_t to) {
  const std::vector<std::span<std::byte>> source = page_memory(group, from);
  size_t next = 0;
  memory_.for_each_piece(
      group, to, [&](std::span<std::byte> piece) { std::memmove(piece.data(), source[next++].data(), piece.size()); });
  return done();
}

Ticket CpuRunner::read_page(uint32_t group, uint32_t page, std::span<std::byte> into) {
  CHECK(into.size() == plan_->page_bytes(group));
  memory_.for_each_piece(group, page, [&](std::span<std::byte> piece) {
    std::memcpy(into.data(), piece.data(), piece.size());
    into = into.subspan(piece.size());
  });
  return done();
}

Ticket CpuRunner::write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) {
  CHECK(from.size() == plan_->page_bytes(group));
  memory_.for_each_piece(group, page, [&](std::span<std::byte> piece) {
    std::memcpy(piece.data(), from.data(), piece.size());
    from = from.subspan(piece.size());
  });
  return done();
}

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
  explicit CpuDevice(const CpuOptions& options)
      : pool_(*options.pool), simd_(simd_info(std::min(options.limit, widest_simd_level()))) {}

  DeviceInfo info() const override {
    const uint32_t threads = pool_.threads();
    return {
        .name = "cpu",
        .description = cat(processor_name(), ", ", simd_.title, ", ", threads, threads == 1 ? " thread" : " threads"),
        .classes_bit_equal = true};
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
  return std::make_unique<cpu::CpuDevice>(options);
}

}  // namespace sluice
