// What a loop on the thread pool costs when its body does nothing: waking, sharing out, waiting.
//
// The mean is of a machine without other work; `fastest` is the best of rounds of a hundred loops, for any machine.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "base/threads.h"

namespace sluice {
namespace {

void empty_loop(benchmark::State& state) {
  constexpr int kLoops = 100;
  ThreadPool pool(static_cast<uint32_t>(state.range(0)));
  double fastest = 1e9;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kLoops; ++i)
      pool.parallel(pool.threads(), 0, [](const Share& share) { benchmark::DoNotOptimize(share.first); });
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, time.count() / kLoops);
  }
  state.SetItemsProcessed(state.iterations() * kLoops);
  state.counters["fastest_ns"] = fastest;
}
BENCHMARK(empty_loop)->Arg(1)->Arg(2)->Arg(4)->ArgName("threads");

}  // namespace
}  // namespace sluice

BENCHMARK_MAIN();
