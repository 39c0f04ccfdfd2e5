// depth SHAPE[:layers] MIX [THREADS [ROUNDS [CACHE]]]: how much slower a token is decoded far into a text than near its
// beginning, on a synthetic model (model/synthetic.h) whose caches hold zeros, so that nothing is read in before. One
// thread is timed by what the system gave it, so that others on the machine disturb less.
//
// Prints the median time of a token's layers and of what is outside of them at every depth, measured in turns, and the
// speed beside that at depth 128 for all layers of the model (those measured stand for as many more).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "device/measured.h"
#include "engine/plan/layout.h"
#include "format/format.h"
#include "model/model.h"
#include "model/synthetic.h"

namespace sluice {
namespace {

constexpr uint32_t kDepths[] = {128, 1024, 4096, 16384};
constexpr uint32_t kPages = kDepths[std::size(kDepths) - 1] / kPagePositions;

struct Times {
  std::vector<double> layers, outside;  // milliseconds, one a round
};

uint64_t nanoseconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}
uint64_t own_time() { return nanoseconds(CLOCK_THREAD_CPUTIME_ID); }
uint64_t wall_time() { return nanoseconds(CLOCK_MONOTONIC); }

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

Result<Model> make_model(const ShapeConfig& shape, const std::string& mix, ThreadPool& pool) {
  const Mix* const found = find_mix(mix);
  if (found == nullptr) return error(ErrorKind::invalid, "mix ", mix, ": want one of convert --to");
  TRY(const SyntheticModel made, SyntheticModel::make(shape, *found, {}));
  const std::shared_ptr<std::byte[]> memory(new std::byte[made.memory_bytes()]);
  auto checkpoint = std::make_shared<const Checkpoint>(made.checkpoint({memory.get(), made.memory_bytes()}, memory));
  pool.parallel(made.tensors().size(), 1, [&](const Share& share) {
    for (size_t i = share.first; i < share.last; ++i)
      made.fill(i, 0, {memory.get() + checkpoint->tensors()[i].offset, checkpoint->tensors()[i].bytes.size()});
  });
  return resolve(std::move(checkpoint));
}

// One token at position depth - 1.
void fill_step(StepBuffer& step, uint32_t depth) {
  const Program& program = step.program();
  step.reset(TokenClass::decode, text_counts(1, 1), 1, 0);
  step.positions()[0] = static_cast<int32_t>(depth) - 1;
  for (uint32_t input = 0; input < program.inputs.size(); ++input)
    if (program.values[program.inputs[input].value].type.element == Element::i32)
      step.input_i32(input)[0] = program.inputs[input].name == "wanted" ? 0 : 5;
  for (uint32_t group = 0; group < program.groups.size(); ++group) {
    const std::span<int32_t> pages = step.pages(group, 0);
    for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i);
  }
  step.sample_rows()[0] = {};
  step.fill_ropes();
}

Status measure(const Program& program, Runner& runner, NanosecondClock clock, StepBuffer& step, uint32_t depth,
               Times* times) {
  fill_step(step, depth);
  runner.measured()->time_ops(clock);
  const Ticket ticket = runner.start(step, {});
  std::optional<Completion> done = runner.poll();
  while (!done) done = runner.poll();
  TRY_STATUS(std::move(done->status));
  double layers = 0, outside = 0;
  for (const OpTime& time : runner.measured()->take_op_times(ticket))
    (program.layers[time.first_op] < 0 ? outside : layers) += static_cast<double>(time.nanoseconds) / 1e6;
  if (times == nullptr) return {};
  times->layers.push_back(layers);
  times->outside.push_back(outside);
  return {};
}

Status run(const std::string& name, const std::string& mix, uint32_t threads, uint32_t rounds,
           std::optional<Format> cache) {
  TRY(const ShapeConfig shape, find_shape(name));
  TRY(const ShapeConfig whole, find_shape(shape.shape->name));
  ThreadPool pool(threads);
  TRY(const Model model, make_model(shape, mix, pool));
  TRY(const Program program, model.record_text());
  const auto device = make_cpu_device({.pool = &pool});
  PlanRequest request{.program = &program, .cache = cache};
  for (const PageGroup& group : program.groups) {
    request.pages.push_back(group.kind == StateKind::slots ? kSlotEntries : kPages);
    request.maxima.pages_per_sequence.push_back(request.pages.back());
  }
  TRY(request.weights, placed_shapes(program, model.weights()));
  TRY(std::unique_ptr<Plan> plan, device->plan(request));
  const std::string numerics = plan->numerics_id();
  std::vector<std::vector<std::byte>> zeros;
  for (uint32_t g = 0; g < program.groups.size(); ++g) zeros.emplace_back(plan->page_bytes(g));
  Budget budget;
  TRY(const std::unique_ptr<Runner> runner, device->place(std::move(plan), model.weights(), budget));
  for (uint32_t g = 0; g < program.groups.size(); ++g)
    for (uint32_t page = 0; page < request.pages[g]; ++page) {
      runner->write_page(g, page, zeros[g]);
      runner->poll();
    }

  StepBuffer step(program, request.maxima);
  Times times[std::size(kDepths)];
  for (uint32_t round = 0; round <= rounds; ++round)  // the first warms up
    for (size_t i = 0; i < std::size(kDepths); ++i)
      TRY_STATUS(measure(program, *runner, threads == 1 ? own_time : wall_time, step, kDepths[i],
                         round == 0 ? nullptr : &times[i]));
  const auto layers_of = [](const ShapeConfig& one) {
    return static_cast<double>(one.config.find("num_hidden_layers")->as_integer());
  };
  std::printf("%s, %s, %s, %u threads, %u rounds\n", name.c_str(), mix.c_str(), numerics.c_str(), threads, rounds);
  std::printf("depth   layers ms  outside ms  speed of all layers beside depth %u\n", kDepths[0]);
  const auto all = [&](const Times& t) {
    return median(t.layers) * layers_of(whole) / layers_of(shape) + median(t.outside);
  };
  for (size_t i = 0; i < std::size(kDepths); ++i)
    std::printf("%5u  %10.3f  %10.3f  %.2f\n", kDepths[i], median(times[i].layers), median(times[i].outside),
                all(times[0]) / all(times[i]));
  return {};
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: depth SHAPE[:layers] MIX [THREADS [ROUNDS [CACHE]]]\n");
    return 2;
  }
  const auto number = [&](int i, uint32_t otherwise) {
    return argc > i ? static_cast<uint32_t>(std::max(1, std::atoi(argv[i]))) : otherwise;
  };
  const auto cache = argc > 5 ? sluice::format_by_name(argv[5]) : std::nullopt;
  const sluice::Status done =
      sluice::run(argv[1], argv[2], number(3, sluice::available_processors()), number(4, 5), cache);
  if (!done) std::fprintf(stderr, "depth: %s\n", done.error().text.c_str());
  return done ? 0 : 1;
}
