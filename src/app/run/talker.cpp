#include "app/run/talker.h"

#include <algorithm>
#include <utility>

#include "app/cli/environment.h"
#include "app/open/contents_file.h"
#include "app/run/expert_list.h"
#include "app/run/sampling_options.h"
#include "base/text.h"
#include "chat/store_settings.h"
#include "engine/sampling_json.h"

namespace sluice {
namespace {

// What the model's store begins with, changed by what was given.
Result<ConversationSettings> settings_of(const Arguments& arguments, const StoreSettings& stored, const Model& model,
                                         bool has_template) {
  ConversationSettings settings;
  settings.raw = arguments.flag("--raw");
  if (arguments.flag("--think") || arguments.flag("--no-think")) settings.think = arguments.flag("--think");
  if (has_template && !settings.raw) {
    settings.system = stored.system;
    settings.opening = stored.messages;
  }
  if (arguments.given("--system")) settings.system = arguments.text("--system");
  TRY(settings.sampling, sampling_settings(arguments, model.facts().vocabulary, stored.sampling));
  const auto max_tokens = static_cast<uint32_t>(arguments.integer("--max-tokens"));
  settings.max_tokens = arguments.given("--max-tokens") ? max_tokens : stored.max_tokens.value_or(max_tokens);
  settings.stops = stored.stops;
  for (std::string& stop : arguments.all("--stop")) settings.stops.push_back(std::move(stop));
  return settings;
}

// Where the list of hot experts is; "" where there shall be none.
std::string expert_list_of(const Arguments& arguments, const Machine& machine, const Model& model) {
  const std::string folder = state_folder();
  const bool streams = machine.must_fit || arguments.given("--expert-memory");
  if (!streams || folder.empty() || arguments.flag("--no-expert-list")) return "";
  const Result<std::string> path = expert_list_path(folder, model.checkpoint().files());
  return path ? *path : "";
}

std::vector<HotExpert> hot_the_last_time(const std::string& path, Console& console) {
  if (path.empty()) return {};
  Result<std::vector<HotExpert>> hot = read_expert_list(path);
  if (hot) return *std::move(hot);
  if (hot.error().kind != ErrorKind::not_found) console.err(cat("sluice: ", hot.error().text, ": not used\n"));
  return {};
}

}  // namespace

void keep_hot_experts(const Talker& talker, Console& console) {
  const std::vector<HotExpert> hot = talker.engine->hot_experts();
  if (talker.expert_list.empty() || hot.empty()) return;
  if (const Status kept = write_expert_list(talker.expert_list, hot); !kept)
    console.err(cat("sluice: ", kept.error().text, " (which experts were used is not kept)\n"));
}

Result<DeviceNeeds> needs_of(const ModelFiles& files, const Arguments& arguments) {
  TRY(Model model, open_model(files, arguments));
  TRY(const StoreSettings stored,
      read_store_settings(files, model.facts().vocabulary, sampling_of_file(model.facts().sampling)));
  WeightFiles weights = weight_files(model);
  EngineOptions options = engine_options_of(arguments, model.facts(), stored.context);
  return DeviceNeeds{std::move(model), std::move(weights), options};
}

Result<std::unique_ptr<Talker>> open_talker(ModelFiles files, const Arguments& arguments, Machine& machine,
                                            Console& console) {
  auto memory = std::make_shared<ContentsFile>(contents_path(state_folder()), files.path, console);
  TRY(Model model, open_model(files, arguments, std::move(memory)));
  TRY(TextParts text, open_text(model, {.chat_template_path = arguments.text("--chat-template")}));
  TRY(const StoreSettings stored,
      read_store_settings(files, model.facts().vocabulary, sampling_of_file(model.facts().sampling)));
  for (const std::string& ignored : model.facts().ignored) console.err(cat("sluice: ", ignored, ": not used\n"));
  TRY(ConversationSettings settings, settings_of(arguments, stored, model, text.chat.has_value()));
  if (!settings.system.empty() && !text.chat)
    return error(ErrorKind::invalid, "run: --system: this model has no chat template: want --chat-template FILE");
  EngineOptions options = engine_options_of(arguments, model.facts(), stored.context);
  options.states = machine.states.get();
  options.experts = expert_options(arguments);
  std::string expert_list = expert_list_of(arguments, machine, model);
  options.experts.warm = hot_the_last_time(expert_list, console);
  std::optional<Forecast> foreseen;
  if (arguments.flag("--stats") && (machine.must_fit || machine.device->info().memory != Domain::host)) {
    measure_reserve(machine);
    TRY(const Foresight foresight, foresee(model, weight_files(model), machine, options, {}));
    foreseen = foresight.forecast;
  }
  std::unique_ptr<Meter> meter;
  std::unique_ptr<MeteredDevice> metered;
  if (arguments.given("--record-routing")) {
    meter = std::make_unique<Meter>();
    meter->keep_uses = true;
    metered = std::make_unique<MeteredDevice>(*machine.device, *meter);
  }
  Device& device = metered ? *metered : *machine.device;
  TRY(std::unique_ptr<Engine> engine, open_engine(model, device, machine, options, console));
  if (metered && !engine->expert_stats()) {
    return error(ErrorKind::invalid, "run: --record-routing: every expert lies in memory: want a --memory or an ",
                 "--expert-memory too small for that, since choices are seen where experts are read");
  }
  return std::make_unique<Talker>(Talker{.files = std::move(files),
                                         .model = std::move(model),
                                         .text = std::move(text),
                                         .meter = std::move(meter),
                                         .metered = std::move(metered),
                                         .expert_list = std::move(expert_list),
                                         .engine = std::move(engine),
                                         .settings = std::move(settings),
                                         .foreseen = std::move(foreseen)});
}

}  // namespace sluice
