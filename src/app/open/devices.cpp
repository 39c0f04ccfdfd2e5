// sluice devices: lists the devices of this machine with their instruction sets and features, and why others cannot be
// used.
#include <algorithm>
#include <utility>

#include "app/cli/console.h"
#include "app/commands.h"
#include "app/open/gpu.h"
#include "app/open/machine_memory.h"
#include "app/open/open.h"
#include "base/text.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "device/webgpu/host.h"

namespace sluice {
namespace {

struct Row {
  std::string name, description;
  std::vector<std::string> more{};  // further lines to show
  std::string missing{};            // why it cannot compute here; "": it can
  Json::Object facts{};
};

Row cpu_row(ThreadPool& pool) {
  const DeviceInfo info = make_cpu_device({.pool = &pool})->info();
  const char* const level = simd_name(default_simd_level());
  std::string names;
  for (const SimdLevel one : simd_levels())
    names += cat(names.empty() ? "" : ", ", simd_name(one), simd_proven(one) ? "" : " (when asked for)");
  return {.name = info.name,
          .description = info.description,
          .more = {cat("instruction set ", level, "; --simd takes ", names)},
          .facts = {{"simd", level}, {"threads", int64_t{pool.threads()}}}};
}

Row reference_row() {
  const DeviceInfo info = make_reference_device()->info();
  return {.name = info.name, .description = info.description};
}

std::string memory_text(const webgpu::Adapter& adapter) {
  if (adapter.memory_bytes == 0) return "memory of unknown size";
  return cat(format_bytes(adapter.memory_bytes),
             adapter.shares_memory ? " of the host's memory" : " of its own memory");
}

std::string subgroup_text(const webgpu::Adapter& adapter) {
  if (!adapter.subgroups) return "no subgroups";
  return adapter.subgroup_least == adapter.subgroup_most
             ? cat("subgroups of ", adapter.subgroup_most)
             : cat("subgroups of ", adapter.subgroup_least, " to ", adapter.subgroup_most);
}

Row gpu_row(const Arguments& arguments, std::string* said) {
  const auto gpu = open_webgpu(arguments.text("--webgpu-library"), said);
  if (!gpu) return {.name = "webgpu", .description = "", .missing = gpu.error().text};
  const webgpu::Adapter& adapter = (*gpu)->adapter();
  Row row{.name = "webgpu",
          .description = adapter.description,
          .more = {cat(gpu_kind(adapter), adapter.is_software ? ": the processor plays it; " : "; ",
                       memory_text(adapter), "; ", adapter.f16 ? "f16" : "no f16", ", ", subgroup_text(adapter),
                       adapter.matrices ? ", matrix units" : "")}};
  if (!adapter.driver.empty()) row.more.push_back(cat("driver ", printable(adapter.driver)));
  if (std::string advice = driver_advice(adapter.driver); !advice.empty()) row.more.push_back(std::move(advice));
  row.facts = {{"kind", gpu_kind(adapter)},
               {"driver", adapter.driver},
               {"memory_bytes", adapter.memory_bytes == 0 ? Json() : Json(static_cast<int64_t>(adapter.memory_bytes))},
               {"shares_memory", adapter.shares_memory},
               {"f16", adapter.f16},
               {"subgroups", adapter.subgroups},
               {"matrices", adapter.matrices}};
  return row;
}

std::string row_text(const Row& row) {
  const std::string indent(12, ' ');
  std::string name = row.name;
  name.resize(indent.size(), ' ');
  if (!row.missing.empty()) {
    const std::string prefix = row.name + ": ";
    const bool named = starts_with(row.missing, prefix);
    return cat(name, "not here: ", named ? row.missing.substr(prefix.size()) : row.missing, '\n');
  }
  std::string text = cat(name, row.description, '\n');
  for (const std::string& line : row.more) text += cat(indent, line, '\n');
  return text;
}

Json row_json(const Row& row) {
  Json::Object object = row.facts;
  object.insert(object.begin(), {{"name", row.name},
                                 {"description", row.description},
                                 {"missing", row.missing.empty() ? Json() : Json(row.missing)}});
  return object;
}

Result<int> run(const Arguments& arguments, Console& console) {
  ThreadPool pool(available_processors());
  std::string said;
  const std::vector<Row> rows = {cpu_row(pool),
                                 gpu_row(arguments, &said),
                                 reference_row(),
                                 {.name = "cuda", .description = "", .missing = "this build has no such device"}};
  const uint64_t memory = machine_memory_bytes();
  if (arguments.flag("--verbose")) console.err(said);
  if (arguments.flag("--json")) {
    Json::Array devices, levels;
    for (const Row& row : rows) devices.push_back(row_json(row));
    for (const SimdLevel level : simd_levels()) levels.emplace_back(simd_name(level));
    console.json(Json::Object{{"devices", std::move(devices)},
                              {"simd", std::move(levels)},
                              {"threads", int64_t{pool.threads()}},
                              {"memory_bytes", static_cast<int64_t>(memory)}});
    return 0;
  }
  std::string text;
  for (const Row& row : rows) text += row_text(row);
  console.table(cat(text, "\nmemory      ", format_bytes(memory), '\n'));
  return 0;
}

}  // namespace

CommandSpec devices_command() {
  return {
      .name = "devices",
      .summary = "Lists what can compute on this machine, and what is missing for the rest",
      .options = {{.name = "--json", .help = "print one JSON object"},
                  {.name = "--verbose", .help = "print on standard error what Dawn and Vulkan's drivers say, too"},
                  webgpu_library_option()},
      .examples = {{"sluice devices", "devices, instruction sets, features, memory"}},
      .json = {{"devices[].name", "string", "as --device takes it"},
               {"devices[].description", "string", "processor, instruction set, threads; the GPU and its interface"},
               {"devices[].missing", "string or null", "why it cannot compute here, and what to do"},
               {"devices[].simd", "string", "of the cpu: the instruction set that is used without --simd"},
               {"devices[].threads", "integer", "of the cpu: as many as --threads without a number"},
               {"devices[].kind", "string",
                "of a GPU: `discrete`, `integrated`, `software` (a processor plays it) or `unknown`"},
               {"devices[].driver", "string", "of a GPU: with its version"},
               {"devices[].memory_bytes", "integer or null", "of a GPU: of its largest heap, if it says so"},
               {"devices[].shares_memory", "boolean", "of a GPU: that heap is the host's memory"},
               {"devices[].f16", "boolean", "of a GPU: 16-bit floats in kernels"},
               {"devices[].subgroups", "boolean", "of a GPU: sums across neighbouring threads"},
               {"devices[].matrices", "boolean", "of a GPU: its matrix units are used"},
               {"simd[]", "string", "what --simd takes here, narrowest first"},
               {"threads", "integer", "processors this process may run on"},
               {"memory_bytes", "integer", "of the machine, or of this process's control group"}},
      .run = run,
  };
}

}  // namespace sluice
