#include "app/open.h"

#include <algorithm>
#include <filesystem>

#include "app/environment.h"
#include "app/machine_memory.h"
#include "app/progress.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "device/webgpu/webgpu.h"

namespace sluice {
namespace {

constexpr const char* kDemoFile = "demo-gemma4-q8_0.gguf";
constexpr uint64_t kSmallMemory = 16 << 20;   // stacks, texts, tables that come to be while answering
constexpr double kDefaultMemoryShare = 0.75;  // the rest is the system's, and the page cache's for mapped weights
constexpr double kDefaultDeviceShare = 0.9;   // of a GPU's own: the rest is its driver's and other programs'

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

// Mapped weights count where a bound was asked for; else the system may take their pages back.
Status limit_memory(const Arguments& arguments, Machine& machine) {
  machine.host_bounded = arguments.given("--memory");
  machine.budget.count_mapped(Domain::host, machine.host_bounded);
  const double share = kDefaultMemoryShare * static_cast<double>(machine_memory_bytes());
  const uint64_t of_host =
      machine.host_bounded ? static_cast<uint64_t>(arguments.integer("--memory")) : static_cast<uint64_t>(share);
  machine.budget.set_limit(Domain::host, of_host);
  const bool of_device = arguments.given("--device-memory");
  if (machine.device->info().memory == Domain::host) {
    if (of_device)
      return error(ErrorKind::invalid, "--device-memory: ", machine.device->info().name,
                   " computes in the host's memory: want --memory");
    machine.bounded = machine.must_fit = machine.host_bounded;
    machine.memory_limit = of_host;
    return {};
  }
  const uint64_t usual = default_device_memory(machine.device->info());
  machine.bounded = of_device;
  machine.must_fit = of_device || usual != 0;
  machine.memory_limit = of_device    ? static_cast<uint64_t>(arguments.integer("--device-memory"))
                         : usual != 0 ? usual
                                      : UINT64_MAX;
  machine.budget.set_limit(machine.device->info().memory, machine.memory_limit);
  return {};
}

// The level of --simd, which this processor must have.
Result<SimdLevel> simd_limit(const Arguments& arguments) {
  if (!arguments.given("--simd")) {
    return default_simd_level();
  }
  const std::string name = arguments.text("--simd");
  TRY(const SimdLevel level, parse_simd_level(name));
  if (std::ranges::count(simd_levels(), level) == 0) {
    return error(ErrorKind::unsupported, "--simd ", name, ": this processor has no more than ",
                 simd_name(simd_levels().back()));
  }
  return level;
}

constexpr const char* kWebGpuLibrary = "libwebgpu_wrapper.so";

Result<std::unique_ptr<Device>> open_device(const Arguments& arguments, ThreadPool* pool) {
  const std::string name = arguments.text("--device");
  if (name == "reference") {
    if (arguments.given("--simd")) {
      return error(ErrorKind::invalid, "--simd: the reference device has no instruction sets: want --device cpu");
    }
    return make_reference_device();
  }
  if (name == "webgpu") {
    return make_webgpu_device({.libraries = webgpu_libraries(arguments.text("--webgpu-library"))});
  }
  if (name != "cpu") {
    return error(ErrorKind::unsupported, "--device ", name,
                 ": this build has no such device: want cpu, reference or webgpu");
  }
  TRY(const SimdLevel limit, simd_limit(arguments));
  return make_cpu_device({.pool = pool, .limit = limit});
}

// The names of all levels, or of those that nobody gets without asking.
std::string simd_choices(bool unproven_only, const char* between) {
  std::string names;
  for (int i = 0; i < kSimdLevels; ++i) {
    const auto level = static_cast<SimdLevel>(i);
    if (unproven_only && simd_proven(level)) {
      continue;
    }
    names += cat(names.empty() ? "" : between, simd_name(level));
  }
  return names;
}

}  // namespace

// The one that is named; else beside the program, in the build folder, and where the system looks.
std::vector<std::string> webgpu_libraries(const std::string& option) {
  if (!option.empty()) {
    return {option};
  }
  if (std::string named = webgpu_library_variable(); !named.empty()) {
    return {std::move(named)};
  }
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  std::vector<std::string> libraries;
  for (const auto& place : {folder, folder.parent_path() / "lib" / "sluice", folder.parent_path() / "webgpu"}) {
    if (std::string file = (place / kWebGpuLibrary).string(); path_kind(file) == PathKind::file) {
      libraries.push_back(std::move(file));
    }
  }
  libraries.emplace_back(kWebGpuLibrary);
  return libraries;
}

uint32_t thread_count(const Arguments& arguments) {
  return arguments.given("--threads") ? static_cast<uint32_t>(arguments.integer("--threads")) : available_processors();
}

OptionSpec webgpu_library_option() {
  return {.name = "--webgpu-library",
          .argument = "FILE",
          .kind = OptionKind::text,
          .help =
              "Dawn's C interface for webgpu: libwebgpu_wrapper.so of npm's bun-webgpu-linux-x64 0.1.7; without it, "
              "SLUICE_WEBGPU_LIBRARY, or where one is found"};
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
  static const std::string simd = simd_choices(false, "|");
  static const std::string simd_help = cat(
      "the widest instruction set the cpu may use; without it, the widest it has, less those that were tested under an "
      "emulator only: ",
      simd_choices(true, ", "));
  return {
      {.name = "--device",
       .argument = "cpu|reference|webgpu|cuda",
       .kind = OptionKind::choice,
       .fallback = "cpu",
       .help =
           "what computes; this build has cpu, reference and webgpu, and never takes another than the one asked for"},
      webgpu_library_option(),
      {.name = "--simd", .argument = simd.c_str(), .kind = OptionKind::choice, .help = simd_help.c_str()},
      threads_option(),
      {.name = "--memory",
       .argument = "BYTES",
       .kind = OptionKind::bytes,
       .help = "what may be taken of the host's memory, such as 512M or 4G, pages of the file that every token reads "
               "among it; experts beyond are read as they are chosen; without it, three quarters of it, and pages as "
               "the system keeps them"},
      {.name = "--device-memory",
       .argument = "BYTES",
       .kind = OptionKind::bytes,
       .help = "what may be taken of a GPU's own memory; experts beyond are read from the file as they are chosen; "
               "without it, nine tenths of it, three quarters where it is the host's, too, or, of a GPU that does not "
               "say how much it has, as much as it gives"},
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
  machine.program_bytes = resident_memory().file;
  machine.pool = std::make_unique<ThreadPool>(thread_count(arguments));
  TRY(machine.device, open_device(arguments, machine.pool.get()));
  TRY_STATUS(limit_memory(arguments, machine));
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

Result<Model> open_model(const std::string& path, std::shared_ptr<ContentsMemory> memory) {
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  return resolve(std::make_shared<const Checkpoint>(std::move(checkpoint)), std::move(memory));
}

// The program, and its own memory less what the budget knows of.
void measure_reserve(Machine& machine) {
  uint64_t known = 0;
  for (const BudgetLine& line : machine.budget.lines()) {
    const bool own = line.purpose != Purpose::mapped_weights && line.purpose != Purpose::reserve;
    known += own && line.domain == Domain::host ? line.bytes : 0;
  }
  const uint64_t anonymous = resident_memory().anonymous;
  machine.budget.set_reserve(Domain::host,
                             machine.program_bytes + anonymous - std::min(anonymous, known) + kSmallMemory);
}

uint64_t default_device_memory(const DeviceInfo& device) {
  const double share = device.shares_memory ? kDefaultMemoryShare : kDefaultDeviceShare;
  return static_cast<uint64_t>(share * static_cast<double>(device.memory_bytes));
}

Status check_room(const MemoryPlan& plan, const Machine& machine) {
  Status fits = check_floor(plan);
  if (fits || machine.bounded || plan.domain == Domain::host) return fits;
  return error(fits.error().kind, fits.error().text, ", of the GPU's ",
               format_bytes(machine.device->info().memory_bytes), " without --device-memory");
}

Result<std::unique_ptr<Engine>> open_engine(const Model& model, Device& device, Machine& machine, EngineOptions options,
                                            Console& console) {
  measure_reserve(machine);
  options.lease_rows = machine.host_bounded;
  if (options.experts.bytes == 0) {
    const Result<MemoryPlan> plan =
        plan_memory(model, weight_files(model), device, machine.budget, machine.memory_limit, options);
    if (machine.must_fit && !plan) return plan.error();
    if (machine.must_fit) TRY_STATUS(check_room(*plan, machine));
    // Without a bound a file that memory holds is left to the page cache; the system would read a larger one again and
    // again, by pages.
    if (machine.must_fit || (plan && plan->streams() && plan->needed() <= plan->limit)) {
      options.experts.bytes = plan->slot_memory();
      options.prompt_chunk = plan->prompt_chunk;
      options.repack = plan->repack;
    }
  }
  // While a weight is packed behind answers its stored form is read, too, and a large head would stand twice.
  if (machine.host_bounded && options.repack == Repack::behind) options.repack = Repack::first;
  const ProgressLine progress(console, cat("loading ", printable(model.checkpoint().path())));
  return Engine::create(model, device, machine.budget, options);
}

OptionSpec arithmetic_option() {
  return {.name = "--arithmetic",
          .argument = "exact|fast",
          .kind = OptionKind::choice,
          .fallback = "fast",
          .help = "exact: everything in f32; fast: what the device does best"};
}

OptionSpec context_option() {
  return {.name = "--context",
          .argument = "N",
          .kind = OptionKind::integer,
          .fallback = "8192",
          .help = "tokens a conversation may have, at most those of the model",
          .least = 1,
          .most = 1e9};
}

OptionSpec expert_memory_option() {
  return {.name = "--expert-memory",
          .argument = "BYTES",
          .kind = OptionKind::bytes,
          .help =
              "reads experts from the file as they are chosen, into so much memory, such as 4G; without it, they "
              "are used where they lie in the file, as the system keeps it in memory"};
}

ExpertOptions expert_options(const Arguments& arguments) {
  ExpertOptions options;
  if (arguments.given("--expert-memory")) {
    options.bytes = static_cast<uint64_t>(arguments.integer("--expert-memory"));
  }
  return options;
}

OptionSpec cache_option() {
  return {.name = "--cache",
          .argument = "f32|f16|bf16",
          .kind = OptionKind::choice,
          .help =
              "numbers in which keys, values and latents are kept; without it f32 in exact arithmetic, which takes "
              "no other, and f16 in fast"};
}

OptionSpec repack_option(const char* fallback) {
  return {.name = "--repack",
          .argument = "behind|first|never",
          .kind = OptionKind::choice,
          .fallback = fallback,
          .help =
              "whether weights are also kept in the device's own form, where memory allows: made behind the first "
              "tokens of an answer, before the first, or not; within --memory, behind is first, since no weight may "
              "stand there twice; no answer changes by it"};
}

Repack repack(const Arguments& arguments) {
  const std::string name = arguments.text("--repack");
  return name == "first" ? Repack::first : name == "never" ? Repack::never : Repack::behind;
}

std::vector<OptionSpec> draft_options() {
  return {
      {.name = "--draft",
       .argument = "none|ngram|mtp",
       .kind = OptionKind::choice,
       .fallback = "none",
       .help = "guesses tokens ahead and checks them together, which gives the same answer, sooner where it pays; "
               "ngram: what followed the last time; mtp: by the layer that the model has for it"},
      {.name = "--draft-tokens",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "4",
       .help = "the most tokens to guess at once",
       .least = 1,
       .most = kMaxDraftTokens},
  };
}

DraftOptions draft_of(const Arguments& arguments) {
  const std::string kind = arguments.text("--draft");
  DraftOptions options;
  options.kind = kind == "mtp" ? DraftKind::mtp : kind == "ngram" ? DraftKind::ngram : DraftKind::none;
  options.tokens = static_cast<uint32_t>(arguments.integer("--draft-tokens"));
  return options;
}

std::optional<Format> cache_format(const Arguments& arguments) {
  return arguments.given("--cache") ? format_by_name(arguments.text("--cache")) : std::nullopt;
}

Arithmetic parse_arithmetic(const std::string& name) { return name == "exact" ? Arithmetic::exact : Arithmetic::fast; }

}  // namespace sluice
