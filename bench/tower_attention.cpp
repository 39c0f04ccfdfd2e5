// tower_attention ROWS [HEADS WIDTH [LIBRARY]]: how long the rows of a picture take to attend to each other, on the
// processor or, with Dawn's library, on a GPU. Prints milliseconds of one attention and its arithmetic a second.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/budget.h"
#include "base/random.h"
#include "base/threads.h"
#include "bench/peer_engine.h"
#include "device/cpu/cpu.h"
#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/webgpu.h"
#include "graph/recorder.h"

namespace sluice {
namespace {

constexpr int kRepeats = 7;

struct NoWeights : WeightSource {
  Result<TensorSource> find(const std::string& name) const override {
    return error(ErrorKind::not_found, "weight ", name, ": found none: want none");
  }
};

Result<Program> record(uint32_t heads, uint32_t width) {
  Recorder recorder;
  const Extent rows{.symbol = Symbol::media_rows};
  const ValueType of_heads{.extent = rows, .heads = heads, .width = width};
  const ValueType of_row{.extent = rows, .width = 1, .element = Element::i32};
  const Value q = recorder.input("q", of_heads), k = recorder.input("k", of_heads), v = recorder.input("v", of_heads);
  const Value first = recorder.input("first", of_row), last = recorder.input("last", of_row);
  recorder.output(attention(q, {.key = k, .value = v}, {.scale = 0.125f, .first = first, .last = last}), "out");
  return recorder.finish();
}

// Every row sees all rows.
void fill(StepBuffer& step, uint32_t rows) {
  step.reset(TokenClass::prompt, {{Symbol::media_rows, rows}}, 0, 0);
  for (uint32_t input = 0; input < 3; ++input) {
    uint32_t i = 0;
    for (float& x : step.input_f32(input))
      x = static_cast<float>(philox4x32({i++, input, 0, 0}, {})[0]) / 2147483648.0f - 1.0f;
  }
  std::ranges::fill(step.input_i32(3), 0);
  std::ranges::fill(step.input_i32(4), static_cast<int32_t>(rows - 1));
}

Status run(Device& device, uint32_t rows, uint32_t heads, uint32_t width) {
  TRY(const Program program, record(heads, width));
  const PlanRequest request{.program = &program, .maxima = {.counts = {{Symbol::media_rows, rows}}}};
  TRY(std::unique_ptr<Plan> plan, device.plan(request));
  std::printf("%s: %u rows, %u heads of %u\n", plan->numerics_id().c_str(), rows, heads, width);
  Budget budget;
  TRY(const std::unique_ptr<Runner> runner, device.place(std::move(plan), NoWeights(), budget));
  StepBuffer step(program, request.maxima);
  fill(step, rows);
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    const Watch watch;
    runner->start(step, {});
    std::optional<Completion> done = runner->poll();
    while (!done) done = runner->poll();
    TRY_STATUS(std::move(done->status));
    times.push_back(watch.seconds());
  }
  std::sort(times.begin(), times.end());
  const double flops = 4.0 * rows * rows * heads * width;
  std::printf("%.2f ms (%.2f to %.2f), %.1f GFLOP/s\n", times[kRepeats / 2] * 1e3, times.front() * 1e3,
              times.back() * 1e3, flops / times[kRepeats / 2] / 1e9);
  return {};
}

Status run_on(const char* library, uint32_t rows, uint32_t heads, uint32_t width) {
  if (library != nullptr) {
    TRY(std::unique_ptr<webgpu::HostFactory> dawn, webgpu::find_dawn({library}));
    return run(*make_webgpu_device(std::move(dawn)), rows, heads, width);
  }
  ThreadPool pool(available_processors());
  return run(*make_cpu_device({.pool = &pool}), rows, heads, width);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return static_cast<uint32_t>(std::max(1, argc > i ? std::atoi(argv[i]) : otherwise));
  };
  const sluice::Status done =
      sluice::run_on(argc > 4 ? argv[4] : nullptr, number(1, 2500), number(2, 16), number(3, 72));
  if (!done) std::fprintf(stderr, "tower_attention: %s\n", done.error().text.c_str());
  return done ? 0 : 1;
}
