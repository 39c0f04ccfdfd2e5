// sluice plan: predicts the memory and the speed of a model before it is loaded or downloaded.
#include <algorithm>
#include <optional>
#include <utility>

#include "app/cli/console.h"
#include "app/commands.h"
#include "app/open/adapters.h"
#include "app/open/open.h"
#include "app/plan/file_header.h"
#include "app/plan/plan_report.h"
#include "app/plan/planned_model.h"
#include "chat/text_parts.h"
#include "checkpoint/file_type.h"

namespace sluice {
namespace {

Result<int> run(const Arguments& arguments, Console& console) {
  TRY(const ModelFiles found, model_files(arguments.positionals()[0], arguments));
  const std::string& path = found.path;
  TRY(const PlannedModel planned, open_planned(found, arguments));
  EngineOptions options = engine_options_of(arguments, planned.model.facts());
  TRY(AdapterSum adapters, open_adapters(planned.model, found, arguments));
  if (!adapters.empty()) options.adapters = {std::move(adapters)};
  options.adapter_room = adapter_room(arguments);
  const auto needs = [&]() -> Result<DeviceNeeds> { return DeviceNeeds{planned.model, planned.files, options}; };
  TRY(Machine machine, open_machine(arguments, needs, console));
  TRY_STATUS(settle_options(options, *machine.device, planned.model));
  const Result<TextParts> text = open_text(planned.model);  // for what it takes of memory
  measure_reserve(machine);
  ForecastSources sources{.header_only = planned.header_only};
  if (arguments.given("--routing")) sources.routing = arguments.text("--routing");
  if (arguments.given("--disk")) sources.disk = static_cast<double>(arguments.integer("--disk"));
  TRY(const std::vector<TowerRoom> towers,
      tower_rooms(planned.model, *machine.device, options.arithmetic, picture_options(arguments)));
  TRY(const Foresight foreseen, foresee(planned.model, planned.files, machine, options, sources));
  const PlanReport report{.model = path,
                          .format = format_label(planned.model.checkpoint()),
                          .device = machine.device->info().description,
                          .header_only = planned.header_only,
                          .bounded = machine.bound().by == MemoryBound::By::request,
                          .device_bytes = machine.device->info().memory_bytes,
                          .host_held = machine.budget.used(Domain::host),
                          .parameters = planned.model.facts().parameters,
                          .plan = &foreseen.plan,
                          .towers = towers,
                          .forecast = foreseen.forecast};
  if (arguments.flag("--json"))
    console.json(plan_json(report));
  else
    console.table(plan_text(report));
  TRY_STATUS(check_room(foreseen.plan, machine.bound()));
  return 0;
}

std::vector<OptionSpec> own_options() {
  return {
      {.name = "--routing",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "a recorded trace of chosen experts; without it, an assumed distribution, which the output names"},
      {.name = "--disk",
       .argument = "BYTES",
       .kind = OptionKind::bytes,
       .help = "the disk's bytes a second; without it, measured on the model's file"},
      arithmetic_option(),
      cache_option(),
      repack_option("behind"),
      context_option(),
      {.name = "--json", .help = "print one JSON object"},
  };
}

}  // namespace

CommandSpec plan_command() {
  return {
      .name = "plan",
      .summary = "Says how much memory a model needs, and how fast it will be",
      .text =
          "Loads nothing. Says who takes how much of --memory, below which amount the model is refused, with which "
          "amount all experts lie in memory, how many of the chosen experts will probably lie there, and how many "
          "tokens a second this machine's memory and disk allow. On a GPU, whose memory --device-memory limits, it "
          "times decode steps without weights. Towers take memory when a picture or sound comes, one at a time. The "
          "header of a GGUF file is enough: its first ten megabytes or so. Exit status 1 when the model does not fit.",
      .positionals = {model_positional(/*required=*/true)},
      .options = join_options({own_options(),
                               {adapter_option(), adapter_room_options()[0], adapter_room_options()[1], mmproj_option(),
                                image_tokens_option()},
                               draft_options(),
                               device_options(/*answers=*/true)}),
      .examples = {{"sluice plan model.gguf --memory 8G", "within 8 GB"},
                   {"head -c 32M model.gguf > header.gguf && sluice plan header.gguf --disk 3G",
                    "for a file that lies elsewhere, on a disk of 3 GB/s"}},
      .json = plan_fields(),
      .run = run,
  };
}

}  // namespace sluice
