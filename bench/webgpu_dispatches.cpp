// webgpu_dispatches LIBRARY SHAPE[:layers] MIX [DEPTH|train [PROMPT [RANK]]]: where a step's time on a GPU goes. Plays
// a decode step of one token at that depth, or a prompt of so many rows, of a synthetic model, with an adapter of that
// rank, or a training step of so many rows. With MODEL.gguf MMPROJ.gguf image [SIDE] it plays the vision tower of these
// files with a picture of so many pixels a side. Then it plays each of the step's dispatches by itself, again and
// again, and prints microseconds and bytes bound a second by kernel and grid. The sum of them leaves out what a
// dispatch waits for between others, which the whole step's time has. Beside them: how fast the GPU copies a buffer.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/threads.h"
#include "bench/peer_engine.h"
#include "checkpoint/checkpoint.h"
#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/kernels/copying.h"
#include "device/webgpu/webgpu.h"
#include "engine/adapters/adapter_slots.h"
#include "engine/media/tower.h"
#include "engine/plan/layout.h"
#include "engine/step_fill.h"
#include "model/mix.h"
#include "model/model.h"
#include "model/synthetic.h"
#include "tests/device/webgpu/forwarding_host.h"
#include "train/training_step.h"

namespace sluice {
namespace {

using namespace webgpu;

// How often things are timed: prompts less often, whose steps are long.
constexpr int kRepeats = 50, kPromptRepeats = 7, kTrainingRepeats = 1;

// Remembers what it is asked to do.
class WatchedHost final : public ForwardingHost {
 public:
  using ForwardingHost::ForwardingHost;
  PipelineId pipeline(const PipelineText& text) override {
    const PipelineId id = ForwardingHost::pipeline(text);
    names[id] = text.name;
    return id;
  }
  // Not counted: what every kernel is given, which is bound first.
  BindingId bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                 const BoundRange& fixed) override {
    const BindingId id = ForwardingHost::bind(pipeline, storage, dynamic, fixed);
    for (const BoundRange& range : storage.subspan(1)) bytes[id] += range.bytes;
    return id;
  }
  HostTicket submit(const CommandStream& commands, std::span<const HostRead> reads) override {
    last.insert(last.end(), commands.words().begin(), commands.words().end());
    return ForwardingHost::submit(commands, reads);
  }

  // Microseconds until the GPU has done them.
  double time(const CommandStream& commands) {
    const Watch watch;
    const HostTicket ticket = ForwardingHost::submit(commands, {});
    submitted = watch.seconds() * 1e6;
    while (!poll(ticket)) continue;
    return watch.seconds() * 1e6;
  }

  double submitted = 0;  // of the last time(): until submit() came back
  std::map<PipelineId, std::string> names;
  std::map<BindingId, uint64_t> bytes;
  std::vector<uint32_t> last;  // commands since it was cleared
};

class WatchedFactory final : public HostFactory {
 public:
  explicit WatchedFactory(std::unique_ptr<HostFactory> factory) : factory_(std::move(factory)) {}
  const webgpu::Adapter& adapter() const override { return factory_->adapter(); }
  Result<std::unique_ptr<Host>> open() override {
    TRY(std::unique_ptr<Host> host, factory_->open());
    auto watched = std::make_unique<WatchedHost>(std::move(host));
    opened = watched.get();
    return std::unique_ptr<Host>(std::move(watched));
  }
  WatchedHost* opened = nullptr;

 private:
  std::unique_ptr<HostFactory> factory_;
};

struct WatchedDevice {
  std::unique_ptr<Device> device;
  WatchedFactory* factory = nullptr;  // the device's
};
Result<WatchedDevice> open_device(const std::string& library) {
  TRY(std::unique_ptr<HostFactory> dawn, find_dawn({library}));
  auto factory = std::make_unique<WatchedFactory>(std::move(dawn));
  WatchedFactory* const watched = factory.get();
  return WatchedDevice{.device = make_webgpu_device(std::move(factory)), .factory = watched};
}

Result<Model> make_model(const ShapeConfig& shape, const std::string& mix) {
  const Mix* const found = find_mix(mix);
  if (found == nullptr) return error(ErrorKind::invalid, "mix ", mix, ": want one of convert --to");
  TRY(const SyntheticModel made, SyntheticModel::make(shape, *found, {}));
  const std::shared_ptr<std::byte[]> memory(new std::byte[made.memory_bytes()]);
  auto checkpoint = std::make_shared<const Checkpoint>(made.checkpoint({memory.get(), made.memory_bytes()}, memory));
  ThreadPool pool(available_processors());
  pool.parallel(made.tensors().size(), 1, [&](const Share& share) {
    for (size_t i = share.first; i < share.last; ++i)
      made.fill(i, 0, {memory.get() + checkpoint->tensors()[i].offset, checkpoint->tensors()[i].bytes.size()});
  });
  return resolve(std::move(checkpoint));
}

void print_dispatches(WatchedHost& host, int repeats) {
  struct Kind {
    double microseconds = 0;
    uint64_t bytes = 0;
    int count = 0;
    std::vector<size_t> at{};  // in `words`
  };
  std::map<std::string, Kind> kinds;
  const std::vector<uint32_t> words = host.last;
  CommandStream all, empty;
  int count = 0;
  for (size_t i = 0; i < words.size() && words[i] == CommandStream::kDispatch; i += CommandStream::kDispatchWords) {
    CommandStream one;
    for (int k = 0; k < repeats; ++k)
      one.dispatch(words[i + 1], words[i + 2], words[i + 3], words[i + 4], words[i + 5]);
    all.dispatch(words[i + 1], words[i + 2], words[i + 3], words[i + 4], words[i + 5]);
    const double took = (host.time(one) - host.time(empty)) / repeats;
    const uint64_t bytes = host.bytes[words[i + 2]];
    Kind& kind = kinds[host.names[words[i + 1]] + " x " + std::to_string(words[i + 4] * words[i + 5]) + ", " +
                       std::to_string(bytes >> 10) + " KB"];
    kind.microseconds += took;
    kind.bytes += bytes;
    kind.at.push_back(i);
    ++kind.count;
    ++count;
  }
  const auto times_of = [&](const CommandStream& commands) {
    std::vector<double> times;
    for (int k = 0; k < repeats; ++k) times.push_back(host.time(commands));
    std::sort(times.begin(), times.end());
    return times;
  };
  for (int k = 0; k < 4 * repeats; ++k) host.time(all);  // until the GPU runs at its speed
  const std::vector<double> whole = times_of(all);
  const double submitted = host.submitted;
  double sum = 0;
  for (const auto& [name, kind] : kinds) {
    // The row without them, and they one behind another, each with its own bindings.
    CommandStream others, own;
    for (size_t i = 0; i < words.size() && words[i] == CommandStream::kDispatch; i += CommandStream::kDispatchWords) {
      const bool is_own = std::find(kind.at.begin(), kind.at.end(), i) != kind.at.end();
      (is_own ? own : others).dispatch(words[i + 1], words[i + 2], words[i + 3], words[i + 4], words[i + 5]);
    }
    const double in_row = (whole[whole.size() / 2] - times_of(others)[repeats / 2]) / kind.count;
    const double behind = (times_of(own)[repeats / 2] - host.time(empty)) / kind.count;
    std::printf("%-40s %4d times %7.1f us again, %7.1f in turn, %7.1f in the row, %8.1f in all %7.1f GB/s\n",
                name.c_str(), kind.count, kind.microseconds / kind.count, behind, in_row, in_row * kind.count,
                static_cast<double>(kind.bytes) / kind.count / in_row / 1e3);
    sum += kind.microseconds;
  }
  std::printf(
      "%d dispatches, %.1f us one by one, %.1f us in a row (%.1f to %.1f), of which submitting %.1f us, an empty "
      "submission %.1f us\n",
      count, sum, whole[whole.size() / 2], whole.front(), whole.back(), submitted, host.time(empty));
}

void print_copy(WatchedHost& host) {
  const Copying copying(host);
  if (!host.settle()) return;
  host.time(copying.commands());
  std::printf("copies: %.0f GB/s, read and written\n",
              static_cast<double>(copying.bytes()) / host.time(copying.commands()) / 1e3);
}

// A sequence of random tokens, each of which is learnt.
Status run_training(const Model& model, Device& device, WatchedFactory& watched, uint32_t rows, uint32_t rank) {
  ThreadPool pool(available_processors());
  Budget budget;
  TRY(std::shared_ptr<const sluice::Adapter> adapter, sluice::Adapter::made(model, std::max(rank, 1u), 0));
  TRY(const std::unique_ptr<TrainedFactors> factors,
      TrainedFactors::create(std::move(adapter), model.weights(), pool, budget));
  TRY(const std::unique_ptr<TrainingStep> step,
      TrainingStep::create(model, *factors, device, budget,
                           {.size = {.rows = rows, .targets = rows - 1, .sequences = 1}}));
  TrainSequence sequence{.tokens = {}, .is_target = std::vector<uint8_t>(rows, 1)};
  for (uint32_t i = 0; i < rows; ++i)
    sequence.tokens.push_back(static_cast<int32_t>(i * 7919 % model.facts().vocabulary));
  const std::array batch = {BatchPart{.sequence = &sequence, .share = 1.0f / static_cast<float>(rows)}};
  for (int i = 0; i < 4; ++i) {
    watched.opened->last.clear();
    const Watch watch;
    TRY_STATUS(step->run(batch));
    std::printf("a step: %.1f us\n", watch.seconds() * 1e6);
  }
  print_dispatches(*watched.opened, kTrainingRepeats);
  return {};
}

Status run_picture(const Model& model, Device& device, WatchedFactory& watched, uint32_t side) {
  Picture picture{.width = side, .height = side, .pixels = std::vector<uint8_t>(size_t{side} * side * 3)};
  for (size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = static_cast<uint8_t>(i * 7919 % 251);
  TRY(Program program, model.record(ProgramKind::vision));
  const TowerModel recorded{ProgramKind::vision, std::move(program), &model.weights_of(ProgramKind::vision)};
  TRY(const ValueId value, tower_rows(recorded.program));
  TRY(const TowerInputs inputs, model.prepare(picture));
  Budget budget;
  TRY(const std::unique_ptr<Tower> tower, Tower::create(recorded, device, budget, Arithmetic::fast, inputs.rows));
  std::vector<float> rows(inputs.rows * size_t{recorded.program.values[value].type.columns()});
  for (int i = 0; i < 4; ++i) {
    watched.opened->last.clear();
    const Watch watch;
    TRY_STATUS(tower->run(inputs, rows));
    std::printf("a picture of %u rows: %.1f us\n", inputs.rows, watch.seconds() * 1e6);
  }
  print_dispatches(*watched.opened, kPromptRepeats);
  return {};
}

Status run_picture(const std::string& library, const std::string& model_file, const std::string& projector,
                   uint32_t side) {
  TRY(Checkpoint checkpoint, open_checkpoint(model_file));
  TRY(const Model text, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
  TRY(const Model model, with_projector(text, projector));
  TRY(const WatchedDevice opened, open_device(library));
  return run_picture(model, *opened.device, *opened.factory, side);
}

// depth 0: a training step.
Status run(const std::string& library, const std::string& name, const std::string& mix, uint32_t depth, uint32_t rows,
           uint32_t rank) {
  TRY(const ShapeConfig shape, find_shape(name));
  TRY(const Model model, make_model(shape, mix));
  TRY(const WatchedDevice opened, open_device(library));
  Device* const device = opened.device.get();
  WatchedFactory& watched = *opened.factory;
  if (depth == 0) return run_training(model, *device, watched, std::max(rows, 2u), rank);
  std::vector<AdapterSum> sums;
  if (rank > 0) {
    TRY(std::shared_ptr<const sluice::Adapter> adapter, sluice::Adapter::made(model, rank, 0));
    sums.push_back({{.adapter = std::move(adapter)}});
  }
  TRY(const Program program, model.record_text({.adapters = AdapterSlots::options(sums)}));
  TRY(const std::unique_ptr<AdapterSlots> slots, AdapterSlots::plan(program, model.weights(), sums));
  if (slots) slots->take();
  const WeightSource& weights = slots ? static_cast<const WeightSource&>(*slots) : model.weights();
  PlanRequest request{.program = &program, .maxima = {.counts = text_counts(std::max(rows, 1u), 1)}};
  for (const PageGroup& group : program.groups) {
    request.pages.push_back(group.kind == StateKind::slots ? kSlotEntries : (depth + 63) / 64);
    request.maxima.pages_per_sequence.push_back(request.pages.back());
  }
  TRY(request.weights, placed_shapes(program, weights));
  TRY(std::unique_ptr<Plan> plan, device->plan(request));
  std::printf("%s, %s, %s, depth %u, %u rows\n", name.c_str(), mix.c_str(), plan->numerics_id().c_str(), depth, rows);
  Budget budget;
  TRY(const std::unique_ptr<Runner> runner, device->place(std::move(plan), weights, budget));
  StepBuffer step(program, request.maxima);
  const TokenClass token_class = rows == 0 ? TokenClass::decode : TokenClass::prompt;
  TRY(const TextPorts ports, find_ports(program));
  fill_alone(step, ports, token_class, std::max(rows, 1u), depth, model.facts().vocabulary);
  if (slots) {
    TRY(const AdapterRow row, slots->row_of(sums.front()));
    std::ranges::fill(step.input_i32(*ports.adapter_slots), row.slot);
    std::ranges::fill(step.input_f32(*ports.adapter_scales), row.scale);
  }
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) {
    watched.opened->last.clear();
    const Watch watch;
    runner->start(step, {});
    std::optional<Completion> done = runner->poll();
    while (!done) done = runner->poll();
    TRY_STATUS(std::move(done->status));
    times.push_back(watch.seconds() * 1e6);
  }
  std::sort(times.begin(), times.end());
  std::printf("a step: %.1f us (%.1f to %.1f)\n", times[times.size() / 2], times.front(), times.back());
  print_dispatches(*watched.opened, rows == 0 ? kRepeats : kPromptRepeats);
  print_copy(*watched.opened);
  return {};
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: webgpu_dispatches LIBRARY SHAPE[:layers] MIX [DEPTH|train [PROMPT [RANK]]]\n"
                 "       webgpu_dispatches LIBRARY MODEL.gguf MMPROJ.gguf image [SIDE]\n");
    return 2;
  }
  const auto number = [&](int i, int otherwise) {
    return static_cast<uint32_t>(argc > i ? std::max(0, std::atoi(argv[i])) : otherwise);
  };
  const bool trains = argc > 4 && std::strcmp(argv[4], "train") == 0;
  const bool sees = argc > 4 && std::strcmp(argv[4], "image") == 0;
  const sluice::Status done = sees ? sluice::run_picture(argv[1], argv[2], argv[3], std::max(number(5, 896), 1u))
                                   : sluice::run(argv[1], argv[2], argv[3], trains ? 0 : std::max(number(4, 512), 1u),
                                                 number(5, 0), number(6, 0));
  if (!done) std::fprintf(stderr, "webgpu_dispatches: %s\n", done.error().text.c_str());
  return done ? 0 : 1;
}
