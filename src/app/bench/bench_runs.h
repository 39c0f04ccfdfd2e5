// The measurements of sluice bench: prompts and answers of given lengths, behind histories of given depths, of several
// sequences at once, on an engine over a metered device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "app/bench/metered_device.h"
#include "engine/engine.h"

namespace sluice {

struct BenchTest {
  TokenClass token_class{};
  uint32_t length = 0;  // measured tokens of each sequence
  uint32_t depth = 0;   // tokens of history before them
  uint32_t batch = 1;   // sequences at once
};

// The spread of a value over several rounds.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread_of(std::vector<double> values);

struct BenchResult {
  BenchTest test;
  Spread tokens_per_second = {};
  Spread bandwidth = {};       // read bandwidth of the memory in bytes a second, measured before each round
  double bytes_per_token = 0;  // weights and cache
  double share = 0;            // the part of `bandwidth` that was used
  // If experts are streamed: bytes a second while the model runs, bytes a second of equally large reads alone before
  // each round, and the first divided by the second.
  Spread disk_rate = {}, disk_bandwidth = {}, disk_share = {};
};

// Measurements before each round, in bytes a second; 0: unknown.
struct BenchYardsticks {
  std::function<double()> memory{};
  std::function<Result<double>(uint64_t block)> disk{};  // by reads of `block` bytes
};

class BenchRunner {
 public:
  // `adapters`: those that the sequences of a test take in turn; empty: none.
  BenchRunner(Engine& engine, Meter& meter, uint32_t vocabulary, std::vector<AdapterSum> adapters = {})
      : engine_(engine), meter_(meter), vocabulary_(vocabulary), adapters_(std::move(adapters)) {}

  // The first round lets caches and clocks settle and does not count.
  Result<BenchResult> run(const BenchTest& test, uint32_t rounds, const BenchYardsticks& yardsticks);
  uint64_t disk_block() const;  // bytes of a read of experts; 0: there has been none
  // The steps of one round with the times of their ops.
  Result<std::vector<MeteredStep>> timed_steps(const BenchTest& test);

 private:
  struct Running {
    RequestId id = 0;
    SequenceId sequence = 0;
    uint64_t tokens = 0;  // of its answer, so far
    bool done = false;
  };
  struct Round {
    double seconds = 0;
    uint64_t tokens = 0;
    uint64_t disk_bytes = 0;
  };
  Result<Round> round(const BenchTest& test);
  uint64_t disk_bytes() const;  // read so far
  Result<std::vector<SequenceId>> filled(const BenchTest& test);
  // `number`: of the sequence in its test.
  Result<Running> submit(Request request, size_t number);
  // Steps until `enough` says that the requests have done enough.
  template <class Enough>
  Status step_until(std::vector<Running>& requests, const Enough& enough);
  double bytes_per_token(uint64_t tokens) const;

  Engine& engine_;
  Meter& meter_;
  uint32_t vocabulary_;
  std::vector<AdapterSum> adapters_;
  uint32_t texts_ = 0;  // drawn so far
};

// Random ids, different for every seed.
std::vector<int32_t> random_tokens(uint32_t count, uint32_t vocabulary, uint32_t seed);

}  // namespace sluice
