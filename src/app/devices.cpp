// sluice devices: what can compute here, and with which instruction sets.
#include <utility>

#include "app/commands.h"
#include "app/console.h"
#include "app/machine_memory.h"
#include "app/open.h"
#include "base/text.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "device/webgpu/webgpu.h"

namespace sluice {
namespace {

Json json_of(const DeviceInfo& info) { return Json::Object{{"name", info.name}, {"description", info.description}}; }

Result<int> run(const Arguments& arguments, Console& console) {
  ThreadPool pool(available_processors());
  std::vector<DeviceInfo> infos = {make_cpu_device({.pool = &pool})->info(), make_reference_device()->info()};
  const Result<std::unique_ptr<Device>> gpu =
      make_webgpu_device({.libraries = webgpu_libraries(arguments.text("--webgpu-library"))});
  if (gpu) {
    infos.push_back((*gpu)->info());
  }
  Json::Array devices, levels;
  std::string lines, names;
  for (const DeviceInfo& info : infos) {
    devices.push_back(json_of(info));
    std::string name = info.name;
    name.resize(12, ' ');
    lines += cat(name, info.description, '\n');
  }
  for (const SimdLevel level : simd_levels()) {
    const char* name = simd_name(level);
    levels.emplace_back(name);
    names += cat(' ', name, simd_proven(level) ? "" : " (when asked for)");
  }
  const uint64_t memory = machine_memory_bytes();
  if (arguments.flag("--json")) {
    console.json(Json::Object{{"devices", std::move(devices)},
                              {"simd", std::move(levels)},
                              {"threads", int64_t{pool.threads()}},
                              {"memory_bytes", static_cast<int64_t>(memory)}});
  } else {
    if (!gpu) {
      lines += cat("webgpu      not here: ", gpu.error().text, '\n');
    }
    console.out(cat(lines, "\n--simd     ", names, "\nmemory      ", format_bytes(memory), '\n'));
  }
  return 0;
}

}  // namespace

CommandSpec devices_command() {
  return {
      .name = "devices",
      .summary = "Lists what can compute on this machine",
      .options = {{.name = "--json", .help = "print one JSON object"}, webgpu_library_option()},
      .examples = {{"sluice devices", "devices, instruction sets, memory"}},
      .json = {{"devices[].name", "string", "as --device takes it"},
               {"devices[].description", "string", "processor, instruction set, threads"},
               {"simd[]", "string", "what --simd takes here, narrowest first"},
               {"threads", "integer", "processors this process may run on"},
               {"memory_bytes", "integer", "of the machine, or of this process's control group"}},
      .run = run,
  };
}

}  // namespace sluice
