#include "app/open.h"

#include <sys/resource.h>

#include <filesystem>

#include "app/environment.h"
#include "app/machine_memory.h"
#include "app/progress.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"

namespace sluice {
namespace {

constexpr const char* kDemoFile = "demo-gemma4-q8_0.gguf";
constexpr double kDefaultMemoryShare = 0.75;  // the rest is the system's, and the page cache's for mapped weights

// Beside the program or in share/ of where it is installed, in the source tree when built there.
Result<std::string> demo_path() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path folder = program.parent_path();
  for (const auto& assets : {folder / "assets", folder.parent_path() / "share" / "sluice"}) {
    if (const std::string installed = (assets / kDemoFile).string(); path_kind(installed) == PathKind::file) {
      return installed;
    }
  }
  const std::string built = join_path(SLUICE_ASSETS, kDemoFile);
  if (path_kind(built) == PathKind::missing) {
    return error(ErrorKind::not_found, built, ": no such file: want the demo model there, or a MODEL");
  }
  return built;
}

uint64_t memory_limit(const Arguments& arguments) {
  if (arguments.given("--memory")) {
    return static_cast<uint64_t>(arguments.integer("--memory"));
  }
  return static_cast<uint64_t>(kDefaultMemoryShare * static_cast<double>(machine_memory_bytes()));
}

// The level of --simd, which this processor must have.
Result<SimdLevel> simd_limit(const Arguments& arguments) {
  if (!arguments.given("--simd")) {
    return widest_simd_level();
  }
  const std::string name = arguments.text("--simd");
  TRY(const SimdLevel level, parse_simd_level(name));
  if (level > widest_simd_level()) {
    return error(ErrorKind::unsupported, "--simd ", name, ": this processor has no more than ",
                 simd_name(widest_simd_level()));
  }
  return level;
}

Result<std::unique_ptr<Device>> open_device(const Arguments& arguments, ThreadPool* pool) {
  const std::string name = arguments.text("--device");
  if (name == "reference") {
    if (arguments.given("--simd")) {
      return error(ErrorKind::invalid, "--simd: the reference device has no instruction sets: want --device cpu");
    }
    return make_reference_device();
  }
  if (name != "cpu") {
    return error(ErrorKind::unsupported, "--device ", name, ": this build has no such device: want cpu or reference");
  }
  TRY(const SimdLevel limit, simd_limit(arguments));
  return make_cpu_device({.pool = pool, .limit = limit});
}

std::string simd_choices() {
  std::string names;
  for (int level = 0; level < kSimdLevels; ++level) {
    names += cat(level == 0 ? "" : "|", simd_name(static_cast<SimdLevel>(level)));
  }
  return names;
}

}  // namespace

uint32_t thread_count(const Arguments& arguments) {
  return arguments.given("--threads") ? static_cast<uint32_t>(arguments.integer("--threads")) : available_processors();
}

OptionSpec threads_option() {
  return {.name = "--threads",
          .argument = "N",
          .kind = OptionKind::integer,
          .help = "threads of the cpu; without it, the processors this process may run on",
          .least = 1,
          .most = 1024};
}

std::vector<OptionSpec> device_options() {
  static const std::string simd = simd_choices();
  return {
      {.name = "--device",
       .argument = "cpu|reference|webgpu|cuda",
       .kind = OptionKind::choice,
       .fallback = "cpu",
       .help = "what computes; this build has cpu and reference, and never takes another than the one asked for"},
      {.name = "--simd",
       .argument = simd.c_str(),
       .kind = OptionKind::choice,
       .help = "the widest instruction set the cpu may use; without it, the widest it has"},
      threads_option(),
      {.name = "--memory",
       .argument = "BYTES",
       .kind = OptionKind::bytes,
       .help = "what may be taken of the host's memory, such as 512M or 4G; without it, three quarters of it"},
  };
}

std::vector<OptionSpec> join_options(const std::vector<std::vector<OptionSpec>>& tables) {
  std::vector<OptionSpec> all;
  for (const std::vector<OptionSpec>& table : tables) {
    all.insert(all.end(), table.begin(), table.end());
  }
  return all;
}

Result<Machine> open_machine(const Arguments& arguments) {
  Machine machine;
  machine.budget.set_limit(Domain::host, memory_limit(arguments));
  machine.pool = std::make_unique<ThreadPool>(thread_count(arguments));
  TRY(machine.device, open_device(arguments, machine.pool.get()));
  return machine;
}

Result<ModelFiles> model_files(const std::string& name) {
  if (name != kDemoName) {
    return find_model(name, machine_places());
  }
  ModelFiles demo;
  demo.name = name;
  TRY(demo.path, demo_path());
  return demo;
}

Result<std::string> model_path(const std::string& name) {
  TRY(const ModelFiles files, model_files(name));
  return files.path;
}

Result<Model> open_model(const std::string& path) {
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  return resolve(std::make_shared<const Checkpoint>(std::move(checkpoint)));
}

Result<std::unique_ptr<Engine>> open_engine(const Model& model, Device& device, Budget& budget,
                                            const EngineOptions& options, Console& console) {
  const ProgressLine progress(console, cat("loading ", printable(model.checkpoint().path())));
  return Engine::create(model, device, budget, options);
}

OptionSpec cache_option() {
  return {.name = "--cache",
          .argument = "f32|f16|bf16",
          .kind = OptionKind::choice,
          .help =
              "numbers in which keys, values and latents are kept; without it f32 in exact arithmetic, which takes "
              "no other, and f16 in fast"};
}

std::optional<Format> cache_format(const Arguments& arguments) {
  return arguments.given("--cache") ? format_by_name(arguments.text("--cache")) : std::nullopt;
}

Arithmetic parse_arithmetic(const std::string& name) { return name == "exact" ? Arithmetic::exact : Arithmetic::fast; }

uint64_t peak_memory_bytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;  // Linux counts in KiB
}

}  // namespace sluice
