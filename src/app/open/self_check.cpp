#include "app/open/self_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "device/reference/reference.h"
#include "graph/ops/linear.h"
#include "graph/recorder.h"

namespace sluice {
namespace {

constexpr uint32_t kOutputs = 32;                // rows of a weight
constexpr uint32_t kPromptRows = 17;             // more than a tile's, and no multiple of one
constexpr uint32_t kLeastColumns = 32;           // of a weight that products are made with
constexpr PhiloxKey kDrawn = {0x5e1f, 0xc4ec4};  // of the numbers: any will do

// The first rows of the first weight of each format; for experts, of the first expert.
class Samples final : public WeightSource {
 public:
  static Result<Samples> of(const Model& model) {
    TRY(const Program program, model.record_text());
    Samples samples;
    for (const WeightDecl& weight : program.weights) {
      if (weight.shape.rows < kOutputs || weight.shape.columns < kLeastColumns) continue;
      TRY(const TensorSource whole, model.weights().find(weight.name));
      const std::pair key{whole.format, whole.parts.size()};
      if (!samples.seen_.emplace(key, weight.name).second) continue;
      samples.sources_.emplace(weight.name, first_rows(whole));
    }
    return samples;
  }
  Result<TensorSource> find(const std::string& name) const override {
    const auto found = sources_.find(name);
    CHECK(found != sources_.end());
    return found->second;
  }
  const std::map<std::string, TensorSource>& sources() const { return sources_; }

 private:
  static TensorSource first_rows(const TensorSource& whole) {
    TensorSource rows = rows_of(whole, 0, kOutputs);
    rows.shape.experts = 1;
    if (!rows.experts.empty()) rows.experts.resize(1);
    for (WeightPart& part : rows.parts)
      if (!part.experts.empty()) part.experts.resize(1);
    return rows;
  }

  std::map<std::pair<Format, size_t>, std::string> seen_;
  std::map<std::string, TensorSource> sources_;
};

Result<Program> products_of(const Samples& samples) {
  Recorder recorder;
  for (const auto& [name, source] : samples.sources()) {
    const Value x = recorder.input("x." + name, {.width = source.shape.columns});
    recorder.output(linear(x, recorder.weight(name, source.shape)), name);
  }
  return recorder.finish();
}

// A device with the program placed on it.
class Player {
 public:
  static Result<Player> open(const Program& program, const Samples& samples, Device& device, Arithmetic arithmetic) {
    Player player;
    player.program_ = &program;
    player.budget_ = std::make_unique<Budget>();
    const StepMaxima maxima{.counts = {{Symbol::rows, kPromptRows}}, .sequences = 1};
    PlanRequest request{.program = &program, .arithmetic = arithmetic, .maxima = maxima};
    for (const WeightDecl& weight : program.weights) {
      TRY(const TensorSource source, samples.find(weight.name));
      request.weights.push_back({source.shape, source.format, !source.parts.empty(), stored_bytes(source)});
    }
    TRY(std::unique_ptr<Plan> plan, device.plan(request));
    TRY(player.runner_, device.place(std::move(plan), samples, *player.budget_));
    player.step_ = std::make_unique<StepBuffer>(program, maxima);
    return player;
  }

  // Each output's numbers.
  Result<std::vector<std::vector<float>>> play(TokenClass token_class, uint32_t rows) {
    step_->reset(token_class, {{Symbol::rows, rows}}, 1, 0);
    for (uint32_t row = 0; row < rows; ++row) step_->positions()[row] = static_cast<int32_t>(row);
    for (uint32_t input = 0; input < program_->inputs.size(); ++input) {
      const std::span<float> numbers = step_->input_f32(input);
      for (uint32_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<float>(philox4x32({i, input, 0, 0}, kDrawn)[0] / 2147483648.0 - 1.0);
    }
    std::vector<std::vector<float>> outputs;
    std::vector<ReadRequest> reads;
    for (const NamedValue& output : program_->outputs) {
      outputs.emplace_back(uint64_t{rows} * program_->values[output.value].type.columns());
      reads.push_back({output.value, std::as_writable_bytes(std::span(outputs.back()))});
    }
    const Ticket ticket = runner_->start(*step_, reads);
    for (;;) {
      const std::optional<Completion> done = runner_->poll();
      if (!done || done->ticket != ticket) continue;
      TRY_STATUS(done->status);
      return outputs;
    }
  }

 private:
  const Program* program_ = nullptr;
  std::unique_ptr<Budget> budget_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<StepBuffer> step_;
};

// The largest difference, as a part of the largest number of its row.
double largest_difference(std::span<const float> found, std::span<const float> expected) {
  double largest = 0;
  for (size_t row = 0; row < expected.size(); row += kOutputs) {
    double scale = 0, off = 0;
    for (size_t i = row; i < row + kOutputs; ++i) {
      scale = std::max(scale, std::fabs(double{expected[i]}));
      const double difference = std::fabs(double{found[i]} - expected[i]);
      off = std::isfinite(difference) ? std::max(off, difference) : INFINITY;
    }
    if (off > 0) largest = std::max(largest, off / std::max(scale, 1e-30));
  }
  return largest;
}

}  // namespace

Status check_products(const Model& model, Device& device, Arithmetic arithmetic) {
  TRY(const Samples samples, Samples::of(model));
  TRY(const Program program, products_of(samples));
  const std::unique_ptr<Device> reference = make_reference_device();
  TRY(Player asked, Player::open(program, samples, device, arithmetic));
  TRY(Player right, Player::open(program, samples, *reference, Arithmetic::exact));
  const Tolerance& bar = Linear::kDoc.tolerance;
  const double may = arithmetic == Arithmetic::exact ? bar.exact : std::max(bar.fast, bar.fast_8bit);
  for (const auto& [token_class, rows] : {std::pair{TokenClass::prompt, kPromptRows}, {TokenClass::decode, 1u}}) {
    TRY(const auto found, asked.play(token_class, rows));
    TRY(const auto expected, right.play(token_class, rows));
    for (size_t i = 0; i < expected.size(); ++i) {
      const double off = largest_difference(found[i], expected[i]);
      if (off <= may) continue;
      const std::string& name = program.outputs[i].name;
      TRY(const TensorSource source, samples.find(name));
      return error(ErrorKind::unsupported, device.info().name, ": ", device.info().description, " multiplies ",
                   format_name(source.format), " wrongly (", name, " is off by ", off, ", may be by ", may, ")");
    }
  }
  return {};
}

}  // namespace sluice
