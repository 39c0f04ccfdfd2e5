#include "app/open/open.h"

#include <algorithm>
#include <filesystem>

#include "app/cli/environment.h"
#include "app/cli/progress.h"
#include "app/open/device_choice.h"
#include "app/open/gpu.h"
#include "app/open/machine_memory.h"
#include "app/open/missing_model.h"
#include "app/open/self_check.h"
#include "base/files/file.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "device/webgpu/host.h"
#include "engine/plan/memory_plan.h"

namespace sluice {
namespace {

constexpr const char* kDemoFile = "demo-gemma4-q8_0.gguf";
constexpr const char* kDemoTowers = "mmproj-demo-gemma4.gguf";  // beside it
constexpr uint64_t kSmallMemory = 16 << 20;                     // stacks, texts, tables that come to be while answering
constexpr double kDefaultMemoryShare = 0.75;  // the rest is the system's, and the page cache's for mapped weights
constexpr double kDefaultDeviceShare = 0.9;   // of a GPU's own: the rest is its driver's and other programs'

std::filesystem::path program_folder() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
}

// Beside the program or in share/ of where it is installed, in the source tree when built there.
Result<std::string> demo_path() {
  const std::filesystem::path folder = program_folder();
  for (const std::filesystem::path& assets : {folder / "assets", std::filesystem::path(installed_folder(""))})
    if (const std::string installed = (assets / kDemoFile).string(); path_kind(installed) == PathKind::file)
      return installed;
  const std::string built = join_path(SLUICE_ASSETS, kDemoFile);
  if (path_kind(built) == PathKind::missing)
    return error(ErrorKind::not_found, kDemoFile, ": not beside the program, nor in ", installed_folder(""), ", nor ",
                 built, ": want make install, which puts it there, or a MODEL");
  return built;
}

// The bound of the host's memory: that of --memory, else a share that leaves room for the page cache and other
// programs.
MemoryBound host_bound(const Arguments& arguments) {
  if (arguments.given("--memory"))
    return {.by = MemoryBound::By::request, .bytes = static_cast<uint64_t>(arguments.integer("--memory"))};
  const double share = kDefaultMemoryShare * static_cast<double>(machine_memory_bytes());
  return {.by = MemoryBound::By::share, .bytes = static_cast<uint64_t>(share)};
}

// The bound of a GPU's own memory: that of --device-memory, else most of the memory that the GPU reports.
MemoryBound device_bound(const Arguments& arguments, const DeviceInfo& device) {
  if (arguments.given("--device-memory"))
    return {.by = MemoryBound::By::request, .bytes = static_cast<uint64_t>(arguments.integer("--device-memory"))};
  const uint64_t usual = default_device_memory(device);
  if (usual == 0) return {};
  return {.by = MemoryBound::By::size,
          .bytes = usual,
          .note = cat(", of the GPU's ", format_bytes(device.memory_bytes), " without --device-memory")};
}

Status limit_memory(const Arguments& arguments, Machine& machine) {
  const DeviceInfo device = machine.device->info();
  machine.bounds.host = host_bound(arguments);
  machine.bounds.lease_rows = machine.bounds.host.strict();
  if (device.memory != Domain::host)
    machine.bounds.device = device_bound(arguments, device);
  else if (arguments.given("--device-memory"))
    return error(ErrorKind::invalid, "--device-memory: ", device.name, " computes in the host's memory: want --memory");
  machine.bounds.limit(machine.budget, device.memory);
  return {};
}

// The level of --simd, which this processor must have.
Result<SimdLevel> simd_limit(const Arguments& arguments) {
  if (!arguments.given("--simd")) return default_simd_level();
  const std::string name = arguments.text("--simd");
  TRY(const SimdLevel level, parse_simd_level(name));
  if (std::ranges::count(simd_levels(), level) == 0) {
    return error(ErrorKind::unsupported, "--simd ", name, ": this processor has no more than ",
                 simd_name(simd_levels().back()));
  }
  return level;
}

Result<std::unique_ptr<Device>> open_cpu(const Arguments& arguments, ThreadPool* pool) {
  TRY(const SimdLevel limit, simd_limit(arguments));
  return make_cpu_device({.pool = pool, .limit = limit});
}

// All of it, with no expert to be read as it is chosen.
Status check_fits(const DeviceNeeds& needs, const Device& device, uint64_t limit) {
  Budget budget;
  budget.set_limit(device.info().memory, limit);
  TRY(const MemoryPlan plan, plan_memory(needs.model, needs.files, device, budget, limit, needs.options));
  TRY_STATUS(check_floor(plan));
  if (plan.recommended() <= plan.limit) return {};
  return error(ErrorKind::out_of_memory, device.info().name, ": ", device.info().description, " has room for ",
               format_bytes(plan.limit), ", the model takes ", format_bytes(plan.recommended()));
}

// The bytes of the model's files. If only the beginning of a file is here, its size follows from the header.
uint64_t file_bytes(const Checkpoint& checkpoint) {
  uint64_t of_files = 0, of_tensors = 0;
  for (const std::string& file : checkpoint.files()) {
    std::error_code failed;
    const uintmax_t size = std::filesystem::file_size(file, failed);
    of_files += failed ? 0 : size;
  }
  for (const StoredTensor& tensor : checkpoint.tensors()) of_tensors += tensor.bytes.size();
  return std::max(of_files, of_tensors);
}

Result<std::unique_ptr<Device>> open_auto(const Arguments& arguments, ThreadPool* pool, const NeedsOf& needs_of,
                                          Console& console) {
  std::unique_ptr<WebGpuDevice> gpu;
  std::optional<DeviceNeeds> needs;
  const GpuAbsence absence = arguments.given("--simd")
                                 ? GpuAbsence{.why = "--simd is about the processor", .expected = true}
                                 : gpu_absence(machine_gpu_signs());
  if (absence.why.empty()) TRY_ASSIGN(needs, needs_of());
  const GpuCandidate webgpu{
      .name = "webgpu",
      .absent = absence.why,
      .expected = absence.expected,
      .open = [&]() -> Result<GpuCandidate::Opened> {
        TRY(gpu, open_webgpu(arguments.text("--webgpu-library")));
        const webgpu::Adapter& adapter = gpu->adapter();
        return GpuCandidate::Opened{adapter.description, adapter.is_gpu, adapter.is_software};
      },
      .fits = [&] { return check_fits(*needs, *gpu, device_bound(arguments, gpu->info()).bytes); },
      .proven = [&] { return check_products(needs->model, *gpu, needs->options.arithmetic); }};
  const DeviceChoice choice = choose_device({&webgpu, 1}, needs ? file_bytes(needs->model.checkpoint()) : 0);
  std::unique_ptr<Device> device = std::move(gpu);
  if (choice.name == "cpu") TRY_ASSIGN(device, open_cpu(arguments, pool));
  if (!choice.plain || arguments.given("--device"))
    console.remark(cat("device  ", choice.name, ": ", device->info().description,
                       choice.why.empty() ? "" : cat(" (", choice.why, ')')));
  return device;
}

Result<std::unique_ptr<Device>> open_device(const Arguments& arguments, ThreadPool* pool) {
  const std::string name = arguments.text("--device");
  if (name == "reference") {
    if (arguments.given("--simd"))
      return error(ErrorKind::invalid, "--simd: the reference device has no instruction sets: want --device cpu");
    return make_reference_device();
  }
  if (name == "webgpu" || name == "gpu") {
    TRY(std::unique_ptr<WebGpuDevice> gpu, open_webgpu(arguments.text("--webgpu-library")));
    return std::unique_ptr<Device>(std::move(gpu));
  }
  if (name != "cpu") {
    return error(ErrorKind::unsupported, "--device ", name,
                 ": this build has no such device: want cpu, reference or webgpu");
  }
  return open_cpu(arguments, pool);
}

template <class Open>
Result<Machine> machine_with(const Arguments& arguments, const Open& open) {
  Machine machine;
  machine.program_bytes = resident_memory().file;
  machine.pool = std::make_unique<ThreadPool>(thread_count(arguments));
  TRY(machine.device, open(machine.pool.get()));
  TRY_STATUS(limit_memory(arguments, machine));
  return machine;
}

// The names of all SIMD levels, or only of the unproven levels, which are used on request only.
std::string simd_choices(bool unproven_only, const char* between) {
  std::string names;
  for (int i = 0; i < kSimdLevels; ++i) {
    const auto level = static_cast<SimdLevel>(i);
    if (unproven_only && simd_proven(level)) continue;
    names += cat(names.empty() ? "" : between, simd_name(level));
  }
  return names;
}

}  // namespace

std::string installed_folder(const std::string& name) {
  const std::filesystem::path folder = program_folder().parent_path() / "share" / "sluice";
  return (name.empty() ? folder : folder / name).string();
}

uint32_t thread_count(const Arguments& arguments) {
  return arguments.given("--threads") ? static_cast<uint32_t>(arguments.integer("--threads")) : available_processors();
}

OptionSpec threads_option() {
  return {.name = "--threads",
          .aliases = "-t",
          .argument = "N",
          .kind = OptionKind::integer,
          .help = "threads of the cpu; without it, the processors this process may run on",
          .least = 1,
          .most = 1024};
}

std::vector<OptionSpec> device_options(bool answers) {
  static const std::string simd = simd_choices(false, "|");
  static const std::string simd_help = cat(
      "the widest instruction set that the cpu may use; without it, the widest that it has, except those tested under "
      "an emulator only: ",
      simd_choices(true, ", "));
  return {
      {.name = "--device",
       .argument = answers ? "auto|cpu|gpu|webgpu|reference|cuda" : "cpu|gpu|webgpu|reference|cuda",
       .kind = OptionKind::choice,
       .fallback = answers ? kAnsweringDevice : kMeasuredDevice,
       .help = answers ? "the device; gpu means webgpu; this build has no cuda. auto takes a GPU if it holds the "
                         "whole model and multiplies its weights correctly, else the cpu, and says which. Any other "
                         "device is used or refused, never replaced"
                       : "the device; gpu means webgpu; this build has no cuda. It is used or refused, never replaced"},
      webgpu_library_option(),
      {.name = "--simd", .argument = simd.c_str(), .kind = OptionKind::choice, .help = simd_help.c_str()},
      threads_option(),
      {.name = "--memory",
       .argument = "BYTES",
       .kind = OptionKind::bytes,
       .help = "the limit on the host's memory, such as 512M or 4G; pages of the file that every token reads count. "
               "Experts without room are read as they are chosen. Without it the limit is three quarters of memory, "
               "and pages of the file do not count"},
      {.name = "--device-memory",
       .argument = "BYTES",
       .kind = OptionKind::bytes,
       .help = "the limit on a GPU's own memory. Experts without room are read from the file as they are chosen. "
               "Without it the limit is nine tenths of the GPU's memory, or three quarters if the host shares it; if "
               "a GPU does not say how much it has, there is no limit"},
  };
}

std::vector<OptionSpec> join_options(const std::vector<std::vector<OptionSpec>>& tables) {
  std::vector<OptionSpec> all;
  for (const std::vector<OptionSpec>& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

Result<Machine> open_machine(const Arguments& arguments) {
  return machine_with(arguments, [&](ThreadPool* pool) { return open_device(arguments, pool); });
}

Result<Machine> open_machine(const Arguments& arguments, const NeedsOf& needs, Console& console) {
  const uint32_t threads = thread_count(arguments), processors = available_processors();
  if (threads > processors && console.err_is_terminal())
    console.remark(cat("--threads ", threads, ": this process may run on ", processors,
                       processors == 1 ? " processor" : " processors", ", and more threads than that are slower"));
  if (arguments.text("--device") != "auto") return open_machine(arguments);
  return machine_with(arguments, [&](ThreadPool* pool) { return open_auto(arguments, pool, needs, console); });
}

Result<ModelFiles> model_files(const std::string& name) {
  if (name != kDemoName) {
    Result<ModelFiles> found = find_model(name, machine_places());
    return found || found.error().kind != ErrorKind::not_found ? std::move(found) : missing_model(name, found.error());
  }
  ModelFiles demo;
  demo.name = name;
  TRY(demo.path, demo_path());
  demo.projector = join_path(std::filesystem::path(demo.path).parent_path().string(), kDemoTowers);
  return demo;
}

Result<ModelFiles> model_files(const std::string& name, const Arguments& arguments) {
  TRY(ModelFiles files, model_files(name));
  if (arguments.given("--mmproj")) files.projector = arguments.text("--mmproj");
  if (arguments.given("--draft-model")) TRY_ASSIGN(files.draft_head, model_path(arguments.text("--draft-model")));
  return files;
}

OptionSpec draft_model_option() {
  return {.name = "--draft-model",
          .argument = "MODEL",
          .kind = OptionKind::text,
          .help =
              "the small model that drafts for this one, such as Gemma 4's assistant: a file, a directory or a "
              "name; implies --draft mtp. One beside the model with assistant in its name is found"};
}

OptionSpec mmproj_option() {
  return {
      .name = "--mmproj",
      .argument = "FILE",
      .kind = OptionKind::text,
      .help =
          "the towers for pictures and sounds in a GGUF file of their own; one that lies beside the model is found"};
}

OptionSpec image_tokens_option() {
  return {.name = "--image-tokens",
          .argument = "N",
          .kind = OptionKind::integer,
          .fallback = "0",
          .help = "the most tokens that a picture may take, for Gemma 4 70 to 1120; 0 for what the model's files say",
          .most = 1 << 16};
}

PictureOptions picture_options(const Arguments& arguments) {
  return {.max_rows = static_cast<uint32_t>(arguments.integer("--image-tokens"))};
}

Result<std::string> model_path(const std::string& name) {
  TRY(const ModelFiles files, model_files(name));
  return files.path;
}

Result<Model> open_model(const ModelFiles& files, const Arguments& arguments) {
  return open_model(files, draft_file_of(arguments));
}

// The program and its own memory, without the memory in the budget.
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

Result<std::unique_ptr<Engine>> open_engine(const Model& model, Device& device, Machine& machine, EngineOptions options,
                                            Console& console) {
  measure_reserve(machine);
  const ProgressLine progress(console, cat("loading ", printable(model.checkpoint().path())));
  return open_engine(model, device, machine.budget, machine.bounds, std::move(options));
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
          .aliases = "-c|--ctx-size|--context-length",
          .argument = "N",
          .kind = OptionKind::integer,
          .fallback = "8192",
          .help = "the longest conversation in tokens, at most the model's",
          .least = 1,
          .most = 1e9};
}

std::vector<OptionSpec> state_options() {
  return {
      {.name = "--state-dir",
       .argument = "DIR",
       .kind = OptionKind::text,
       .help = "keeps computed states there, so that a prompt with the same beginning continues from them after a "
               "restart. A folder that others may write to is not used. The model is read whole once and remembered "
               "while its files stay the same"},
      {.name = "--state-dir-size",
       .argument = "BYTES",
       .kind = OptionKind::bytes,
       .fallback = "8G",
       .help = "the limit on kept states; the least recently used are removed first"},
  };
}

std::unique_ptr<StateStore> open_state_store(const Arguments& arguments) {
  if (!arguments.given("--state-dir")) return nullptr;
  const auto limit = static_cast<uint64_t>(arguments.integer("--state-dir-size"));
  return std::make_unique<StateStore>(arguments.text("--state-dir"), limit);
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
  if (arguments.given("--expert-memory")) options.bytes = static_cast<uint64_t>(arguments.integer("--expert-memory"));
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
       .argument = "auto|none|ngram|mtp|both",
       .kind = OptionKind::choice,
       .fallback = "auto",
       .help =
           "guesses tokens ahead and checks them in one step: the same answer, sooner where it pays. ngram takes the "
           "tokens that followed the last time. mtp asks the model's own layer for it, in its file or in one beside "
           "it named mtp-*.gguf, or the model of --draft-model. both takes whichever of the two is right more often. "
           "For at most four answers at once, auto is both on the processor with an assistant beside the model, else "
           "ngram; with delta nets it takes 4 guesses at most, and none where memory is short or experts are read as "
           "they are chosen. For more answers auto is none"},
      draft_model_option(),
      {.name = "--draft-tokens",
       .argument = "N",
       .kind = OptionKind::integer,
       .help = "the most tokens to guess at once (without it 8, and 4 for mtp); both asks a head for 4 at most",
       .least = 1,
       .most = kMaxDraftTokens},
  };
}

DraftOptions draft_of(const Arguments& arguments) {
  std::string kind = arguments.text("--draft");
  if (arguments.given("--draft-model") && !arguments.given("--draft")) kind = "mtp";
  DraftOptions options;
  options.kind = kind == "mtp"     ? DraftKind::mtp
                 : kind == "both"  ? DraftKind::both
                 : kind == "ngram" ? DraftKind::ngram
                 : kind == "auto"  ? DraftKind::automatic
                                   : DraftKind::none;
  options.tokens = arguments.given("--draft-tokens") ? static_cast<uint32_t>(arguments.integer("--draft-tokens"))
                   : options.kind == DraftKind::mtp  ? 4
                                                     : 8;
  return options;
}

DraftFile draft_file_of(const Arguments& arguments) {
  const DraftOptions options = draft_of(arguments);
  if (options.has_head()) return DraftFile::any;
  return options.kind == DraftKind::automatic ? DraftFile::draft_model : DraftFile::none;
}

Status settle_options(EngineOptions& options, const Device& device, const Model& model) {
  TRY(const Program program, model.record_text());
  options.prompt_chunk = suited_chunk(device.info(), program);
  const bool on_host = device.info().memory == Domain::host;
  if (options.draft.kind == DraftKind::automatic && on_host && model.has_draft_model() &&
      options.sequences <= kMostThatDraft) {
    options.draft.kind = DraftKind::both;
    options.draft.head_may_lack_room = true;
  }
  return {};
}

std::optional<Format> cache_format(const Arguments& arguments) {
  return arguments.given("--cache") ? format_by_name(arguments.text("--cache")) : std::nullopt;
}

EngineOptions engine_options_of(const Arguments& arguments, const ModelFacts& facts, std::optional<uint32_t> context) {
  const auto asked = static_cast<uint32_t>(arguments.integer("--context"));
  EngineOptions options;
  options.arithmetic = parse_arithmetic(arguments.text("--arithmetic"));
  options.cache = cache_format(arguments);
  options.repack = repack(arguments);
  options.context = std::min(arguments.given("--context") ? asked : context.value_or(asked), facts.context_length);
  options.draft = draft_of(arguments);
  return options;
}

Arithmetic parse_arithmetic(const std::string& name) { return name == "exact" ? Arithmetic::exact : Arithmetic::fast; }

}  // namespace sluice
