// Training from step to step: checkpoints, and what a loss that is not finite says; pairs of answers. Four seconds.
#include "train/trainer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <utility>

#include "base/files/file.h"
#include "base/random.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "device/forwarding_runner.h"
#include "device/reference/reference.h"
#include "model/adapters/new_adapter.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

// Computes as another runner does, and has not finished when it is asked for the first time, as a page's GPU.
class LateRunner final : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override {
    is_late_ = true;
    return runner().start(step, reads, options);
  }
  std::optional<Completion> poll() override {
    return std::exchange(is_late_, false) ? std::optional<Completion>() : runner().poll();
  }

 private:
  bool is_late_ = false;
};

class LateDevice final : public Device {
 public:
  explicit LateDevice(Device& device) : device_(device) {}
  DeviceInfo info() const override { return device_.info(); }
  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override { return device_.plan(request); }
  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    TRY(std::unique_ptr<Runner> runner, device_.place(std::move(plan), weights, budget));
    return std::unique_ptr<Runner>(std::make_unique<LateRunner>(std::move(runner)));
  }

 private:
  Device& device_;
};

class TrainerTest : public testing::Test {
 protected:
  TrainerTest()
      : folder_(cat(testing::TempDir(), "sluice_trainer_", ::getpid())),
        model_(unwrap(resolve(
            std::make_shared<const Checkpoint>(unwrap(open_checkpoint(cat(SLUICE_TEST_DATA, "/gemma4_moe"))))))),
        device_(make_cpu_device({.pool = &pool_})) {
    NewAdapter made = unwrap(new_adapter(model_, {.rank = 2}));
    unwrap(write_adapter(path("start"), made.config, made.tensors));
  }
  ~TrainerTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return join_path(folder_, name); }

  static std::vector<TrainSequence> examples() {
    std::vector<TrainSequence> all;
    for (int32_t i = 0; i < 7; ++i) {
      TrainSequence one;
      for (int32_t t = 0; t < 5 + i; ++t) {
        one.tokens.push_back(20 + (i * 31 + t * 7) % 200);
        one.is_target.push_back(t >= 2 ? 1 : 0);
      }
      all.push_back(std::move(one));
    }
    return all;
  }

  static std::vector<TrainSequence> six_examples() {
    std::vector<TrainSequence> some = examples();
    some.pop_back();
    return some;
  }
  static double drawn(uint32_t kind, uint32_t i) { return philox4x32({i, kind, 0, 0}, {7, 7})[0] / 4294967296.0 - 0.5; }

  // A trainer of its own, with the factors that it trains.
  struct Run {
    std::unique_ptr<TrainedFactors> factors;
    std::unique_ptr<Trainer> trainer;

    std::vector<std::vector<float>> numbers() const {
      std::vector<std::vector<float>> all;
      for (const StoredFactor& one : factors->tensors()) all.push_back(one.numbers);
      return all;
    }
  };
  Run begin(TrainerOptions options) { return begin_on(*device_, examples(), options); }
  Run begin_on(Device& device, std::vector<TrainSequence> examples, const TrainerOptions& options) {
    Run run;
    run.factors =
        unwrap(TrainedFactors::create(unwrap(Adapter::open(model_, path("start"))), model_.weights(), pool_, budget_));
    run.trainer = unwrap(Trainer::create(model_, *run.factors, device, budget_, std::move(examples), options));
    return run;
  }
  static TrainerOptions options() {
    TrainerOptions options;
    options.rate = 5e-3;
    options.epochs = 4;
    options.batch_tokens = 20;
    options.part_tokens = 12;
    options.held_out = 0.2;
    return options;
  }

  const std::string folder_;
  ThreadPool pool_{2};
  const Model model_;
  Budget budget_;
  std::unique_ptr<Device> device_;
};

TEST_F(TrainerTest, TheLossFallsAndHeldOutExamplesStayApart) {
  Run run = begin(options());
  EXPECT_EQ(run.trainer->trained_examples(), 6u);
  EXPECT_EQ(run.trainer->held_out_examples(), 1u);
  const double first = unwrap(run.trainer->step()).loss;
  double last = first;
  while (run.trainer->steps_done() < run.trainer->steps()) last = unwrap(run.trainer->step()).loss;
  EXPECT_LT(last, first);
  EXPECT_TRUE(unwrap(run.trainer->evaluate()).has_value());
}

// An evaluation computed the model without its adapter, so its loss never changed.
TEST_F(TrainerTest, AnEvaluationSeesTheFactors) {
  Run run = begin(options());
  const double before = unwrap(run.trainer->evaluate()).value();
  unwrap(run.trainer->step());
  unwrap(run.trainer->step());
  EXPECT_NE(unwrap(run.trainer->evaluate()).value(), before);
  const TrainSequence example = examples().front();
  std::vector<double> sums;
  for (const bool gradients : {true, false}) {
    const auto step =
        unwrap(TrainingStep::create(model_, *run.factors, *device_, budget_,
                                    {.size = {.rows = 12, .targets = 12, .sequences = 1}, .gradients = gradients}));
    sums.push_back(unwrap(step->run({{{.sequence = &example}}})).sums.at(0));
  }
  EXPECT_EQ(sums[0], sums[1]);
}

// The plan is what the budget held, line by line.
TEST_F(TrainerTest, MemoryIsForetoldToTheByte) {
  Run run;
  run.factors =
      unwrap(TrainedFactors::create(unwrap(Adapter::open(model_, path("start"))), model_.weights(), pool_, budget_));
  std::map<Purpose, uint64_t> foretold, held;
  TrainerOptions of_run = options();
  of_run.kept_layers = 2;
  for (const MemoryLine& line : unwrap(Trainer::memory(model_, *run.factors, *device_, examples(), of_run)))
    if (line.bytes != 0) foretold[line.purpose] += line.bytes;
  foretold[Purpose::adapters] += run.factors->reserved_bytes();
  run.trainer = unwrap(Trainer::create(model_, *run.factors, *device_, budget_, examples(), of_run));
  while (run.trainer->steps_done() < run.trainer->steps()) unwrap(run.trainer->step());
  unwrap(run.trainer->evaluate());
  for (const BudgetLine& line : budget_.lines()) held[line.purpose] += line.peak;
  EXPECT_EQ(foretold, held);
}

TEST_F(TrainerTest, APieceOfItIsMeasured) {
  Run run = begin(options());
  const TrainerPace pace = unwrap(run.trainer->measure(0));
  EXPECT_GT(pace.tokens_per_second, 0);
  EXPECT_GT(pace.evaluation_tokens_per_second, 0);
  EXPECT_EQ(run.trainer->held_out_tokens(), 11u);
  uint64_t tokens = 0;
  Run whole = begin(options());
  while (whole.trainer->steps_done() < whole.trainer->steps()) tokens += unwrap(whole.trainer->step()).tokens;
  EXPECT_EQ(whole.trainer->tokens(), tokens);
}

// Pairs: directional derivatives of the loss in f64, and that the preferred answers become likelier.
TEST_F(TrainerTest, GradientsOfPreferencesAreFiniteDifferences) {
  const std::unique_ptr<Device> exact = make_reference_device_f64();
  TrainerOptions pairs = options();
  pairs.arithmetic = Arithmetic::exact;
  pairs.dpo_beta = 0.7;
  pairs.held_out = 0;
  pairs.rate = 0;  // the factors stay as they are put
  pairs.optimizer.clip = 0;
  pairs.batch_tokens = 1000;  // all pairs in every step
  pairs.epochs = 100;
  Run run = begin_on(*exact, six_examples(), pairs);
  EXPECT_EQ(run.trainer->trained_examples(), 3u);
  EXPECT_NEAR(unwrap(run.trainer->step()).loss, std::log(2), 1e-6) << "no answer has gained yet";
  const auto put = [&](double distance) {
    for (uint32_t t = 0; t < run.factors->tensors().size(); ++t)
      for (uint32_t i = 0; i < run.factors->tensors()[t].numbers.size(); ++i)
        run.factors->tensors()[t].numbers[i] = static_cast<float>(0.2 * drawn(t, i) + distance * drawn(1000 + t, i));
    run.factors->lay_out();
    return unwrap(run.trainer->step()).loss;
  };
  EXPECT_GT(std::abs(put(0) - std::log(2)), 0.02);
  double foretold = 0;
  for (uint32_t t = 0; t < run.factors->tensors().size(); ++t)
    for (uint32_t i = 0; i < run.factors->gradients()[t].size(); ++i)
      foretold += double{run.factors->gradients()[t][i]} * drawn(1000 + t, i);
  constexpr double kStep = 2e-5;  // with one of 2.5e-4 a router chooses other experts
  const double found = (put(kStep) - put(-kStep)) / (2 * kStep);
  // The losses of tokens are read as f32: errors of some 1e-6, divided by the step.
  EXPECT_NEAR(foretold, found, 4e-3 * std::max(1.0, std::abs(found)));
}

TEST_F(TrainerTest, PreferencesAreLearntAndGoOnToTheSameBits) {
  TrainerOptions pairs = options();
  pairs.dpo_beta = 0.5;
  pairs.held_out = 0.34;
  const auto begin_pairs = [&] { return begin_on(*device_, six_examples(), pairs); };
  Run whole = begin_pairs();
  EXPECT_EQ(whole.trainer->held_out_examples(), 1u);
  EXPECT_NEAR(unwrap(whole.trainer->evaluate()).value(), std::log(2), 1e-6);
  StepReport last;
  while (whole.trainer->steps_done() < whole.trainer->steps()) last = unwrap(whole.trainer->step());
  EXPECT_LT(last.loss, 0.6);
  EXPECT_EQ(last.preferred, 1.0);
  Run first = begin_pairs();
  for (int i = 0; i < 3; ++i) unwrap(first.trainer->step());
  unwrap(first.trainer->save(path("pairs")));
  Run second = begin_pairs();
  unwrap(second.trainer->load(path("pairs")));
  while (second.trainer->steps_done() < second.trainer->steps()) unwrap(second.trainer->step());
  EXPECT_EQ(second.numbers(), whole.numbers());
}

TEST_F(TrainerTest, PollingAndWaitingGiveTheSameBits) {
  LateDevice late(*device_);
  TrainerOptions pairs = options();
  pairs.dpo_beta = 0.5;
  pairs.held_out = 0.34;
  for (const TrainerOptions& how : {options(), pairs}) {
    SCOPED_TRACE(how.dpo_beta);
    Run waiting = begin_on(*device_, six_examples(), how), polled = begin_on(late, six_examples(), how);
    for (int step = 0; step < 3; ++step) {
      const StepReport want = unwrap(waiting.trainer->step());
      polled.trainer->begin_step();
      EXPECT_FALSE(unwrap(polled.trainer->poll_step())) << "the device computes";
      std::optional<StepReport> report;
      while (!report) report = unwrap(polled.trainer->poll_step());
      EXPECT_FALSE(polled.trainer->running());
      EXPECT_EQ(report->loss, want.loss);
      EXPECT_EQ(report->gradient_norm, want.gradient_norm);
    }
    polled.trainer->begin_evaluation();
    std::optional<double> loss;
    while (!loss) loss = unwrap(polled.trainer->poll_evaluation());
    EXPECT_EQ(loss, unwrap(waiting.trainer->evaluate()));
    EXPECT_EQ(polled.numbers(), waiting.numbers());
  }
}

TEST_F(TrainerTest, AStepThatIsStoppedChangesNothing) {
  LateDevice late(*device_);
  Run stopped = begin_on(late, examples(), options()), whole = begin(options());
  unwrap(stopped.trainer->step());
  const std::vector<std::vector<float>> before = stopped.numbers();
  stopped.trainer->begin_step();
  EXPECT_FALSE(unwrap(stopped.trainer->poll_step()));
  stopped.trainer->stop();
  EXPECT_TRUE(stopped.trainer->running()) << "a part is at hand";
  while (stopped.trainer->running()) EXPECT_FALSE(unwrap(stopped.trainer->poll_step()));
  EXPECT_EQ(stopped.numbers(), before);
  EXPECT_EQ(stopped.trainer->steps_done(), 1u);
  while (stopped.trainer->steps_done() < stopped.trainer->steps()) unwrap(stopped.trainer->step());
  while (whole.trainer->steps_done() < whole.trainer->steps()) unwrap(whole.trainer->step());
  EXPECT_EQ(stopped.numbers(), whole.numbers());
}

TEST_F(TrainerTest, AnInterruptedTrainingGoesOnToTheSameBits) {
  Run whole = begin(options());
  while (whole.trainer->steps_done() < whole.trainer->steps()) unwrap(whole.trainer->step());
  Run first = begin(options());
  for (int i = 0; i < 5; ++i) unwrap(first.trainer->step());
  unwrap(first.trainer->save(path("checkpoint")));
  Run second = begin(options());
  unwrap(second.trainer->load(path("checkpoint")));
  EXPECT_EQ(second.trainer->steps_done(), 5u);
  while (second.trainer->steps_done() < second.trainer->steps()) unwrap(second.trainer->step());
  EXPECT_EQ(second.numbers(), whole.numbers());
}

TEST_F(TrainerTest, ACheckpointOfOtherOptionsIsRefused) {
  Run run = begin(options());
  unwrap(run.trainer->step());
  unwrap(run.trainer->save(path("checkpoint")));
  TrainerOptions other = options();
  other.rate = 1e-3;
  EXPECT_EQ(begin(other).trainer->load(path("checkpoint")).error().text,
            path("checkpoint") +
                ": is a checkpoint of other examples or options: want those it was made with, or another --out");
}

TEST_F(TrainerTest, ALossThatIsNotFiniteNamesTheOp) {
  Run run = begin(options());
  run.factors->tensors()[1].numbers[0] = std::numeric_limits<float>::infinity();
  run.factors->lay_out();
  const Result<StepReport> report = run.trainer->step();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().text.find("training: the loss is not finite: the first such number is a result of"),
            std::string::npos)
      << report.error().text;
}

}  // namespace
}  // namespace sluice
