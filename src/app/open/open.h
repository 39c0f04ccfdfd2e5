// Opens the budget, the chosen device and the model, for every command that runs a model. There is no fallback: a
// missing device or instruction set is an error.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/args.h"
#include "app/cli/console.h"
#include "base/budget.h"
#include "base/result.h"
#include "base/threads.h"
#include "chat/memory_bounds.h"
#include "chat/open_model.h"
#include "checkpoint/model_files.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/state/state_store.h"
#include "model/model.h"
#include "model/tower.h"

namespace sluice {

// The default of --device, for commands that measure a device and for those that answer.
inline constexpr const char* kMeasuredDevice = "cpu";
inline constexpr const char* kAnsweringDevice = "auto";
// --device, --webgpu-library, --simd, --threads, --memory, ... Only commands that answer take auto.
std::vector<OptionSpec> device_options(bool answers = false);
OptionSpec threads_option();
uint32_t thread_count(const Arguments& arguments);  // of --threads
// The rows of several tables as one.
std::vector<OptionSpec> join_options(const std::vector<std::vector<OptionSpec>>& tables);

// The parts that belong to the process. It must not move, because the device uses the pool.
struct Machine {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Device> device;
  Budget budget;
  MemoryBounds bounds;                 // the limits of the budget
  uint64_t program_bytes = 0;          // of the program and its libraries in memory
  std::unique_ptr<StateStore> states;  // null: states are not kept on disk

  const MemoryBound& bound() const { return bounds.of(device->info().memory); }  // of the device's memory
};
Result<Machine> open_machine(const Arguments& arguments);

// The facts by which --device auto chooses a device. They are needed only if there may be a GPU.
struct DeviceNeeds {
  Model model;
  WeightFiles files;
  EngineOptions options;
};
using NeedsOf = std::function<Result<DeviceNeeds>()>;
// Reports the choice of auto, and why it is not a GPU. Says nothing if that is no news and nobody asked.
Result<Machine> open_machine(const Arguments& arguments, const NeedsOf& needs, Console& console);

// PREFIX/share/sluice/NAME of where the program is installed, or without NAME the folder above, existing or not.
std::string installed_folder(const std::string& name);

// A path, a name that sluice list shows, or "demo" for the built-in model.
inline constexpr const char* kDemoName = "demo";
Result<ModelFiles> model_files(const std::string& name);
// With --mmproj and --draft-model.
Result<ModelFiles> model_files(const std::string& name, const Arguments& arguments);
OptionSpec mmproj_option();
OptionSpec image_tokens_option();
PictureOptions picture_options(const Arguments& arguments);
Result<std::string> model_path(const std::string& name);  // the model's own file or directory alone
// Opens a model as `arguments` ask for drafts: without a draft head of its own it takes the one in a file beside it.
Result<Model> open_model(const ModelFiles& files, const Arguments& arguments);
// Opens on the machine's device or one around it. Measures the reserve and shows progress, because packing takes time.
Result<std::unique_ptr<Engine>> open_engine(const Model& model, Device& device, Machine& machine, EngineOptions options,
                                            Console& console);

// The memory that may be taken of a GPU without --device-memory; 0: its size is unknown.
uint64_t default_device_memory(const DeviceInfo& device);

// Sets the reserve of `machine`'s budget: the program's own memory. Measure it when texts and tables are loaded.
void measure_reserve(Machine& machine);

OptionSpec arithmetic_option();                  // --arithmetic
OptionSpec context_option();                     // --context
OptionSpec cache_option();                       // --cache
OptionSpec repack_option(const char* fallback);  // --repack
Repack repack(const Arguments& arguments);
OptionSpec expert_memory_option();        // --expert-memory
std::vector<OptionSpec> state_options();  // --state-dir, --state-dir-size
// Null without --state-dir. Notes of the store say what is wrong with the folder.
std::unique_ptr<StateStore> open_state_store(const Arguments& arguments);
ExpertOptions expert_options(const Arguments& arguments);
OptionSpec draft_model_option();
std::vector<OptionSpec> draft_options();  // --draft, --draft-model, --draft-tokens
DraftOptions draft_of(const Arguments& arguments);
DraftFile draft_file_of(const Arguments& arguments);
// What suits that device: the rows of a prompt step, and what automatic drafts are. On the processor a draft model
// beside the model takes part in them; on a GPU it did not pay.
Status settle_options(EngineOptions& options, const Device& device, const Model& model);
std::optional<Format> cache_format(const Arguments& arguments);
// The engine's options from the options above. `context`: the value without --context.
EngineOptions engine_options_of(const Arguments& arguments, const ModelFacts& facts,
                                std::optional<uint32_t> context = {});

Arithmetic parse_arithmetic(const std::string& name);  // "exact" or "fast", as a choice option gives it

}  // namespace sluice
