#include "stub.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "device/placing.h"
#include "graph/arena.h"
#include "graph/operands.h"

namespace sluice {
namespace {

// The visible table of missing ops.
constexpr std::string_view kMissing[] = {
    "embed",      "l2_norm",          "layer_norm",     "add_bias",        "scale",     "clamp",
    "activation", "gated_activation", "rope",           "append",          "attention", "expand",
    "short_conv", "delta_gates",      "delta_rule",     "route",           "experts",   "scatter",
    "pool",       "sample",           "linear.adapter", "clustered_logits"};
// And those of training.
#define SLUICE_OP_NAME(O, with) O::kDoc.name,
constexpr std::string_view kTrainingOps[] = {SLUICE_EACH_TRAINING_OP(SLUICE_OP_NAME, )};
#undef SLUICE_OP_NAME
constexpr bool is_missing(std::string_view op) {
  return std::ranges::find(kMissing, op) != std::end(kMissing) ||
         std::ranges::find(kTrainingOps, op) != std::end(kTrainingOps);
}
std::vector<std::string> missing() {
  std::vector<std::string> all(std::begin(kMissing), std::end(kMissing));
  all.insert(all.end(), std::begin(kTrainingOps), std::end(kTrainingOps));
  return all;
}

class StubPlan final : public Plan {
 public:
  explicit StubPlan(const PlanRequest& request)
      : request_(request), arena_(pack_arena(*request.program, request.maxima, request.traced)) {}

  std::vector<MemoryLine> memory() const override { return {{Domain::host, Purpose::activations, arena_.bytes}}; }
  uint64_t page_bytes(uint32_t /*group*/) const override { return 0; }  // no op that it plays has a state
  std::string numerics_id() const override { return "stub/v1"; }

  const PlanRequest& request() const { return request_; }
  const Arena& arena() const { return arena_; }

 private:
  PlanRequest request_;
  Arena arena_;
};

class StubRunner final : public Runner {
 public:
  StubRunner(std::unique_ptr<StubPlan> plan, std::vector<TensorSource> weights, std::vector<Reservation> reservations)
      : reservations_(std::move(reservations)),
        plan_(std::move(plan)),
        weights_(std::move(weights)),
        arena_(plan_->arena().bytes / sizeof(float)) {}

  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override {
    started_.push_back({++last_ticket_, &step, {reads.begin(), reads.end()}, options.find_non_finite});
    return last_ticket_;
  }
  Ticket copy_page(uint32_t, uint32_t, uint32_t) override { return nothing(); }
  Ticket read_page(uint32_t, uint32_t, std::span<std::byte>) override { return nothing(); }
  Ticket write_page(uint32_t, uint32_t, std::span<const std::byte>) override { return nothing(); }

  std::optional<Completion> poll() override {
    if (started_.empty()) return std::nullopt;
    const Started first = std::move(started_.front());
    started_.pop_front();
    Completion completion{.ticket = first.ticket};
    if (first.step != nullptr) play(first, completion);
    return completion;
  }

 private:
  struct Started {
    Ticket ticket = 0;
    const StepBuffer* step = nullptr;  // null: nothing is to be computed
    std::vector<ReadRequest> reads{};
    bool find_non_finite = false;
  };

  Ticket nothing() {
    started_.push_back({.ticket = ++last_ticket_});
    return last_ticket_;
  }

  void play(const Started& started, Completion& completion) {
    step_ = started.step;
    for (uint32_t op = 0; op < program().ops.size(); ++op) {
      std::visit([&](const auto& o) { run(o); }, program().ops[op]);
      if (started.find_non_finite && !completion.non_finite) completion.non_finite = find_non_finite(op);
    }
    for (const ReadRequest& read : started.reads) {
      CHECK(may_read(plan_->request(), read.value) && read.into.size() == elements(read.value) * 4);
      if (!read.into.empty()) std::memcpy(read.into.data(), in(read.value), read.into.size());
    }
  }

  // An op without an overload below does not compile, unless the table has it. Then plan() has refused its program.
  template <class O>
  void run(const O& /*op*/) {
    static_assert(is_missing(O::kDoc.name));
    CHECK(false);
  }

  void run(const Linear& op) {
    const TensorSource& weight = weights_[op.weight];
    std::vector<float> row(weight.shape.columns);
    for (uint32_t o = 0; o < weight.shape.rows; ++o) {
      decode_weight_row(weight, 0, o, row.data());
      for (uint64_t r = 0; r < rows(op.x); ++r) {
        float sum = 0;
        for (uint64_t i = 0; i < row.size(); ++i) sum += row[i] * in(op.x)[r * row.size() + i];
        out(op.out)[r * weight.shape.rows + o] = sum;
      }
    }
  }

  void run(const RmsNorm& op) {
    const uint64_t width = type(op.x).width;
    std::vector<float> weight(width, 1.0f);
    if (op.weight != kNone) decode_weight_row(weights_[op.weight], 0, 0, weight.data());
    for (uint64_t first = 0; first < elements(op.x); first += width) {
      const float* x = in(op.x) + first;
      float squares = 0;
      for (uint64_t i = 0; i < width; ++i) squares += x[i] * x[i];
      const float root = std::sqrt(squares / static_cast<float>(width) + op.eps);
      for (uint64_t i = 0; i < width; ++i) out(op.out)[first + i] = x[i] / root * weight[i];
    }
  }

  void run(const Add& op) {
    for (uint64_t i = 0; i < elements(op.a); ++i) out(op.out)[i] = in(op.a)[i] + in(op.b)[i];
  }
  void run(const Mul& op) {
    for (uint64_t i = 0; i < elements(op.a); ++i) out(op.out)[i] = in(op.a)[i] * in(op.b)[i];
  }
  void run(const Softcap& op) {
    for (uint64_t i = 0; i < elements(op.x); ++i) out(op.out)[i] = op.cap * std::tanh(in(op.x)[i] / op.cap);
  }

  void run(const Gather& op) {
    const auto input = std::ranges::find(program().inputs, op.index, &NamedValue::value);
    const auto index = step_->input_i32(static_cast<uint32_t>(input - program().inputs.begin()));
    const uint64_t columns = type(op.x).columns();
    for (size_t i = 0; i < index.size(); ++i)
      if (index[i] < 0)
        std::fill_n(out(op.out) + i * columns, columns, 0.0f);
      else
        std::copy_n(in(op.x) + static_cast<uint64_t>(index[i]) * columns, columns, out(op.out) + i * columns);
  }
  void run(const Slice& op) {
    const uint64_t width = type(op.x).width, heads = type(op.x).heads;
    for (uint64_t r = 0; r < rows(op.out); ++r)
      for (uint64_t h = 0; h < op.heads; ++h)
        std::copy_n(in(op.x) + (r * heads + op.first_head + h * op.stride) * width, width,
                    out(op.out) + (r * op.heads + h) * width);
  }

  std::optional<NonFinite> find_non_finite(uint32_t op) const {
    std::optional<NonFinite> found;
    for_each_output(program().ops[op], [&](ValueId id) {
      const float* end = in(id) + elements(id);
      const float* at = std::find_if_not(in(id), end, [](float x) { return std::isfinite(x); });
      if (found || at == end) return;
      const auto row = static_cast<uint32_t>(static_cast<uint64_t>(at - in(id)) / type(id).columns());
      found = NonFinite{.op = op,
                        .layer = program().layers[op],
                        .row = static_cast<uint32_t>(step_->step_row(type(id).extent, row)),
                        .what = std::string(op_name(program().ops[op]))};
    });
    return found;
  }

  const Program& program() const { return *plan_->request().program; }
  const ValueType& type(ValueId id) const { return program().values[id].type; }
  uint64_t rows(ValueId id) const { return step_->rows_of(type(id).extent); }
  uint64_t elements(ValueId id) const { return rows(id) * type(id).columns(); }

  // Values lie in the arena, the program's inputs in the step.
  float* out(ValueId id) { return arena_.data() + plan_->arena().offsets[id] / sizeof(float); }
  const float* in(ValueId id) const {
    const uint64_t offset = plan_->arena().offsets[id];
    if (offset != Arena::kNowhere) return arena_.data() + offset / sizeof(float);
    const auto input = std::ranges::find(program().inputs, program().values[id].storage, &NamedValue::value);
    return step_->input_f32(static_cast<uint32_t>(input - program().inputs.begin())).data();
  }

  std::vector<Reservation> reservations_;
  std::unique_ptr<StubPlan> plan_;
  std::vector<TensorSource> weights_;
  std::vector<float> arena_;
  const StepBuffer* step_ = nullptr;
  std::deque<Started> started_;
  Ticket last_ticket_ = 0;
};

class StubDevice final : public Device {
 public:
  DeviceInfo info() const override {
    return {.name = "stub", .description = "plain loops of a few ops", .classes_bit_equal = true, .missing = missing()};
  }

  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override {
    const auto takes = [&](WeightId id) {
      return request.weights[id].in_parts || format_info(request.weights[id].format).decodable;
    };
    TRY_STATUS(check_planned(info(), request, "one that decode_weight_row() reads", takes));
    return std::unique_ptr<Plan>(std::make_unique<StubPlan>(request));
  }

  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    std::unique_ptr<StubPlan> own(static_cast<StubPlan*>(plan.release()));
    TRY(std::vector<TensorSource> sources, find_planned(own->request(), weights));
    TRY(std::vector<Reservation> reservations, reserve_planned(budget, own->memory()));
    return std::unique_ptr<Runner>(
        std::make_unique<StubRunner>(std::move(own), std::move(sources), std::move(reservations)));
  }
};

}  // namespace

std::unique_ptr<Device> make_stub_device() { return std::make_unique<StubDevice>(); }

}  // namespace sluice
