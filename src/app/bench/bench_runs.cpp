#include "app/bench/bench_runs.h"

#include <algorithm>
#include <chrono>

#include "app/cli/interrupt.h"
#include "base/random.h"

namespace sluice {
namespace {

constexpr float kAnyToken = 100;            // a temperature at which all tokens are about as likely
constexpr uint32_t kDepthTexts = 1u << 31;  // the text before those of a sequence stays the same from round to round

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

std::vector<int32_t> random_tokens(uint32_t count, uint32_t vocabulary, uint32_t seed) {
  std::vector<int32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i)
    tokens[i] = static_cast<int32_t>(philox4x32({i, 0, 0, 0}, {seed, 0})[0] % vocabulary);
  return tokens;
}

Spread spread_of(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

Result<BenchResult> BenchRunner::run(const BenchTest& test, uint32_t rounds, const BenchYardsticks& yardsticks) {
  TRY_STATUS(round(test));
  BenchResult result{.test = test};
  std::vector<double> speeds, reads, disk_rates, disks, disk_shares;
  const uint64_t block = disk_block();
  for (uint32_t i = 0; i < rounds; ++i) {
    reads.push_back(yardsticks.memory());
    double disk = 0;
    if (block != 0) TRY_ASSIGN(disk, yardsticks.disk(block));
    TRY(const Round one, round(test));
    speeds.push_back(static_cast<double>(one.tokens) / one.seconds);
    disk_rates.push_back(static_cast<double>(one.disk_bytes) / one.seconds);
    disks.push_back(disk);
    disk_shares.push_back(disk > 0 ? disk_rates.back() / disk : 0);
    if (i == 0) result.bytes_per_token = bytes_per_token(one.tokens);
  }
  result.tokens_per_second = spread_of(std::move(speeds));
  result.bandwidth = spread_of(std::move(reads));
  result.disk_rate = spread_of(std::move(disk_rates));
  result.disk_bandwidth = spread_of(std::move(disks));
  result.disk_share = spread_of(std::move(disk_shares));
  if (result.bandwidth.median <= 0) return result;
  result.share = result.bytes_per_token * result.tokens_per_second.median / result.bandwidth.median;
  return result;
}

Result<std::vector<MeteredStep>> BenchRunner::timed_steps(const BenchTest& test) {
  meter_.time_ops = true;
  const Result<Round> done = round(test);
  meter_.time_ops = false;
  if (!done) return done.error();
  return meter_.steps();
}

uint64_t BenchRunner::disk_block() const {
  const std::optional<ExpertStats> experts = engine_.expert_stats();
  return experts && experts->reads != 0 ? experts->read_bytes / experts->reads : 0;
}

uint64_t BenchRunner::disk_bytes() const {
  const std::optional<ExpertStats> experts = engine_.expert_stats();
  return experts ? experts->read_bytes : 0;
}

// A prompt's time is from its submission to its first token. For an answer, the first token does not count, because a
// prompt of one token computes it.
Result<BenchRunner::Round> BenchRunner::round(const BenchTest& test) {
  const bool prompt = test.token_class == TokenClass::prompt;
  TRY(const std::vector<SequenceId> sequences, filled(test));
  std::vector<Running> requests;
  requests.reserve(sequences.size());
  const auto tokens = [&] {
    uint64_t sum = 0;
    for (const Running& one : requests) sum += one.tokens;
    return sum;
  };
  meter_.clear();
  uint64_t read_before = disk_bytes();
  double before = now();
  for (const SequenceId sequence : sequences) {
    Request request;
    request.sequence = sequence;
    request.max_tokens = prompt ? 1 : test.length + 1;
    request.prompt = random_tokens(prompt ? test.length : 1, vocabulary_, texts_++);
    TRY(Running running, submit(std::move(request), requests.size()));
    requests.push_back(running);
  }
  uint64_t uncounted = 0;
  if (!prompt) {
    TRY_STATUS(step_until(
        requests, [&] { return std::ranges::all_of(requests, [](const Running& one) { return one.tokens > 0; }); }));
    uncounted = tokens();
    meter_.clear();
    read_before = disk_bytes();
    before = now();
  }
  TRY_STATUS(
      step_until(requests, [&] { return std::ranges::all_of(requests, [](const Running& one) { return one.done; }); }));
  const double seconds = now() - before;
  return Round{seconds, prompt ? uint64_t{test.length} * test.batch : tokens() - uncounted, disk_bytes() - read_before};
}

// Sequences of `depth` tokens that wait for more; new ones where the depth is 0.
Result<std::vector<SequenceId>> BenchRunner::filled(const BenchTest& test) {
  std::vector<SequenceId> sequences(test.batch, kNewSequence);
  if (test.depth == 0) return sequences;
  std::vector<Running> requests;
  requests.reserve(test.batch);
  for (uint32_t i = 0; i < test.batch; ++i) {
    Request request;
    request.keep_sequence = true;
    request.prompt = random_tokens(test.depth, vocabulary_, kDepthTexts + i);
    TRY(Running running, submit(std::move(request), i));
    requests.push_back(running);
  }
  TRY_STATUS(
      step_until(requests, [&] { return std::ranges::all_of(requests, [](const Running& one) { return one.done; }); }));
  for (uint32_t i = 0; i < test.batch; ++i) sequences[i] = requests[i].sequence;
  return sequences;
}

// If experts are streamed, answers are random tokens, like prompts. Greedy text soon repeats itself, with made-up
// weights at once. Its experts repeat, too, and would then all be in memory.
Result<BenchRunner::Running> BenchRunner::submit(Request request, size_t number) {
  if (!adapters_.empty()) request.adapters = adapters_[number % adapters_.size()];
  request.sampling.temperature = engine_.expert_stats() ? kAnyToken : 0.0f;
  request.sampling.seed = texts_;
  TRY(const RequestId id, engine_.submit(std::move(request)));
  return Running{.id = id};
}

template <class Enough>
Status BenchRunner::step_until(std::vector<Running>& requests, const Enough& enough) {
  while (!enough()) {
    if (interrupted()) return error(ErrorKind::cancelled, "bench: stopped");
    if (engine_.step() == StepState::in_flight) {
      engine_.wait();
      continue;
    }
    for (Running& one : requests) {
      if (one.done) continue;
      TRY(const Progress progress, engine_.collect(one.id));
      if (progress.failure) return *progress.failure;
      one.tokens += progress.tokens.size();
      one.sequence = progress.sequence;
      one.done = progress.finish != Finish::running;
    }
  }
  return {};
}

double BenchRunner::bytes_per_token(uint64_t tokens) const {
  uint64_t bytes = 0;
  for (const MeteredStep& step : meter_.steps())
    for (uint32_t op = 0; op < meter_.facts().program->ops.size(); ++op) {
      const OpCost cost = op_cost(meter_.facts(), op, step.work);
      bytes += cost.weight_bytes + cost.state_bytes;
    }
  return static_cast<double>(bytes) / static_cast<double>(tokens);
}

}  // namespace sluice
