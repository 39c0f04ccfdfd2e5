#include "device/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <type_traits>

#include "device/measured.h"
#include "device/placing.h"
#include "device/reference/interpreter.h"
#include "graph/cost.h"
#include "graph/op_check.h"
#include "graph/operands.h"

namespace sluice {
namespace reference {
namespace {

template <class Real>
constexpr const char* kName = std::is_same_v<Real, float> ? "reference" : "reference-f64";

template <class Real>
class ReferencePlan : public Plan {
 public:
  explicit ReferencePlan(const PlanRequest& request)
      : request_(request),
        tables_(*request.program, request.maxima, request.traced),
        pages_(*request.program, request.pages) {}

  std::vector<MemoryLine> memory() const override {
    const std::vector<WeightUse> uses = weight_uses(*request_.program);
    uint64_t mapped = 0;
    for (size_t i = 0; i < uses.size(); ++i)
      if (uses[i] >= WeightUse::experts) mapped += request_.weights[i].bytes;
    return {{Domain::host, Purpose::state, *pages_.bytes().value()},
            {Domain::host, Purpose::activations, tables_.bytes()},
            {Domain::host, Purpose::mapped_weights, mapped}};
  }
  uint64_t page_bytes(uint32_t group) const override { return pages_.page_bytes(group); }
  std::string numerics_id() const override { return cat(kName<Real>, "/1"); }

  const PlanRequest& request() const { return request_; }
  const Tables<Real>& tables() const { return tables_; }
  const Pages<Real>& pages() const { return pages_; }

 private:
  PlanRequest request_;
  Tables<Real> tables_;
  Pages<Real> pages_;
};

template <class Real>
class ReferenceRunner : public Runner, private OpTimer {
 public:
  ReferenceRunner(const ReferencePlan<Real>& plan, std::vector<TensorSource> weights,
                  std::vector<Reservation> reservations)
      : request_(plan.request()),
        program_(*request_.program),
        weights_(std::move(weights)),
        reservations_(std::move(reservations)),
        tables_(plan.tables()),
        pages_(plan.pages()),
        interpreter_(program_, weights_, tables_, pages_) {
    tables_.allocate();
    pages_.allocate();
  }

  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override;
  Ticket copy_page(uint32_t group, uint32_t from, uint32_t to) override {
    const std::span<const std::byte> source = pages_.page(group, from);
    return write_page(group, to, source);
  }
  Ticket read_page(uint32_t group, uint32_t page, std::span<std::byte> into) override {
    const std::span<const std::byte> bytes = pages_.page(group, page);
    CHECK(into.size() == bytes.size());
    std::copy(bytes.begin(), bytes.end(), into.begin());
    return done({});
  }
  Ticket write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) override {
    const std::span<std::byte> bytes = pages_.page(group, page);
    CHECK(from.size() == bytes.size());
    std::copy(from.begin(), from.end(), bytes.begin());
    return done({});
  }
  MeasuredRunner* measured() override { return this; }
  std::optional<Completion> poll() override {
    if (finished_.empty()) return std::nullopt;
    Completion first = std::move(finished_.front());
    finished_.pop_front();
    return first;
  }

 private:
  Ticket done(std::optional<NonFinite> non_finite) {
    finished_.push_back({.ticket = ++last_ticket_, .non_finite = std::move(non_finite)});
    return last_ticket_;
  }
  std::optional<NonFinite> find_non_finite(uint32_t op, const StepBuffer& step);
  void read(const ReadRequest& request, const StepBuffer& step);

  PlanRequest request_;
  const Program& program_;
  std::vector<TensorSource> weights_;
  std::vector<Reservation> reservations_;
  Tables<Real> tables_;
  Pages<Real> pages_;
  Interpreter<Real> interpreter_;
  std::deque<Completion> finished_;
  Ticket last_ticket_ = 0;
};

template <class Real>
Ticket ReferenceRunner<Real>::start(const StepBuffer& step, std::span<const ReadRequest> reads,
                                    const StartOptions& options) {
  tables_.load(step);
  std::optional<NonFinite> non_finite;
  std::vector<OpTime> op_times;
  for (uint32_t op = 0; op < program_.ops.size(); ++op) {
    const uint64_t before = op_clock() != nullptr ? op_clock()() : 0;
    interpreter_.run(program_.ops[op], step);
    if (op_clock() != nullptr) op_times.push_back({op, op + 1, op_clock()() - before});
    if (options.find_non_finite && !non_finite) non_finite = find_non_finite(op, step);
  }
  for (const ReadRequest& request : reads) read(request, step);
  const Ticket ticket = done(std::move(non_finite));
  if (op_clock() != nullptr) keep(ticket, std::move(op_times));
  return ticket;
}

template <class Real>
std::optional<NonFinite> ReferenceRunner<Real>::find_non_finite(uint32_t op, const StepBuffer& step) {
  std::optional<NonFinite> found;
  for_each_output(program_.ops[op], [&](ValueId id) {
    if (found || program_.values[id].type.element != Element::f32) return;
    for (uint64_t r = 0; r < interpreter_.rows(id, step) && !found; ++r) {
      const Real* row = tables_.reals(id, r);
      if (std::all_of(row, row + tables_.columns(id), [](Real x) { return std::isfinite(x); })) continue;
      found = NonFinite{.op = op,
                        .layer = program_.layers[op],
                        .row = static_cast<uint32_t>(interpreter_.step_row(id, r, step)),
                        .what = std::string(op_name(program_.ops[op]))};
    }
  });
  return found;
}

template <class Real>
void ReferenceRunner<Real>::read(const ReadRequest& request, const StepBuffer& step) {
  CHECK(may_read(request_, request.value));
  const uint64_t count = interpreter_.rows(request.value, step) * tables_.columns(request.value);
  CHECK(request.into.size() == count * 4);
  if (count == 0) return;
  if (program_.values[request.value].type.element == Element::i32) {
    std::memcpy(request.into.data(), tables_.integers(request.value, 0), count * 4);
    return;
  }
  const Real* from = tables_.reals(request.value, 0);
  const std::vector<float> rounded(from, from + count);
  std::memcpy(request.into.data(), rounded.data(), count * 4);
}

template <class Real>
class ReferenceDevice : public Device {
 public:
  DeviceInfo info() const override {
    const char* number = std::is_same_v<Real, float> ? "f32" : "f64";
    return {
        .name = kName<Real>, .description = cat("scalar loops in ", number, ", 1 thread"), .classes_bit_equal = true};
  }

  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override {
    const auto takes = [&](WeightId id) {
      return request.weights[id].in_parts || format_info(request.weights[id].format).decodable;
    };
    TRY_STATUS(check_planned(info(), request, "one that is computed with", takes));
    if (request.cache.value_or(Format::f32) != Format::f32)
      return error(ErrorKind::unsupported, "cache: found elements of ", format_name(*request.cache),
                   ": want f32 on the reference device");
    auto plan = std::make_unique<ReferencePlan<Real>>(request);
    if (plan->pages().bytes().overflown())
      return error(ErrorKind::out_of_memory, "state: found pages beyond 64 bits of bytes: want fewer");
    return std::unique_ptr<Plan>(std::move(plan));
  }

  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    const auto& own = static_cast<const ReferencePlan<Real>&>(*plan);
    TRY(std::vector<TensorSource> sources, find_planned(own.request(), weights));
    TRY(std::vector<Reservation> reservations, reserve_planned(budget, own.memory()));
    return std::unique_ptr<Runner>(
        std::make_unique<ReferenceRunner<Real>>(own, std::move(sources), std::move(reservations)));
  }
};

}  // namespace
}  // namespace reference

std::unique_ptr<Device> make_reference_device() { return std::make_unique<reference::ReferenceDevice<float>>(); }
std::unique_ptr<Device> make_reference_device_f64() { return std::make_unique<reference::ReferenceDevice<double>>(); }

}  // namespace sluice
