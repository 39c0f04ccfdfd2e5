#include "app/run/run_model.h"

#include <algorithm>
#include <utility>

#include "app/cli/environment.h"
#include "app/cli/progress.h"
#include "app/open/adapters.h"
#include "app/open/contents_file.h"
#include "app/run/expert_list.h"
#include "app/run/form_options.h"
#include "app/run/sampling_options.h"
#include "app/run/tool_options.h"
#include "base/text.h"
#include "engine/plan/tower_room.h"

namespace sluice {
namespace {

// What the model's store begins with, changed by what was given.
Result<ConversationSettings> conversation_settings(const Arguments& arguments, const ChatModel& model, bool talks) {
  const StoreSettings& stored = model.settings;
  ConversationSettings settings;
  settings.raw = arguments.flag("--raw");
  if (arguments.flag("--think") || arguments.flag("--no-think")) settings.think = arguments.flag("--think");
  if (model.text.chat && !settings.raw) {
    settings.system = stored.system;
    settings.opening = stored.messages;
  }
  if (arguments.given("--system")) settings.system = arguments.text("--system");
  if (!settings.system.empty() && !model.text.chat)
    return error(ErrorKind::invalid, "run: --system: this model has no chat template: want --chat-template FILE");
  TurnSettings& turn = settings.turn;
  TRY(turn.sampling, sampling_settings(arguments, model.model.facts().vocabulary, stored.sampling));
  const auto max_tokens = static_cast<uint32_t>(arguments.integer("--max-tokens"));
  turn.max_tokens = arguments.given("--max-tokens") ? max_tokens : stored.max_tokens.value_or(max_tokens);
  if (arguments.given("--thinking-budget"))
    turn.thought_budget = static_cast<uint32_t>(arguments.integer("--thinking-budget"));
  TRY_ASSIGN(turn.grammar, answer_grammar(arguments, model.text));
  TRY_STATUS(take_tool_options(arguments, model.text, model.model, settings));
  turn.stops = stored.stops;
  for (std::string& stop : arguments.all("--stop")) turn.stops.push_back(std::move(stop));
  turn.context_hint = talks ? " (/compact, /clear, or --context N)" : " (--context N makes room)";
  return settings;
}

Result<AdapterShelf> given_adapters(const Model& model, const ModelFiles& files, const Arguments& arguments) {
  TRY(AdapterSum sum, open_adapters(model, files, arguments));
  AdapterShelf shelf;
  for (AdapterUse& use : sum) shelf.add(std::move(use));
  return shelf;
}

// Where the list of hot experts is; "" where there shall be none.
std::string expert_list_of(const Arguments& arguments, const Machine& machine, const Model& model) {
  const std::string folder = state_folder();
  const bool streams = machine.bound().strict() || arguments.given("--expert-memory");
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

// For pictures and sounds that were given, and in a chat for one that may be. Nobody waits for the latter, so a chat
// begins without that room as well.
Status leave_room_for_media(const Model& model, const Arguments& arguments, const Device& device, bool talks,
                            EngineOptions& options) {
  const size_t shown = arguments.all("--image").size() + arguments.all("--video").size();
  const MediaCounts given{.pictures = static_cast<uint32_t>(shown),
                          .sounds = static_cast<uint32_t>(arguments.all("--audio").size())};
  const bool any = given.pictures + given.sounds != 0;
  if (!any && !talks) return {};
  const Result<std::vector<TowerRoom>> rooms =
      tower_rooms(model, device, options.arithmetic, picture_options(arguments));
  if (!rooms) return any ? Status(rooms.error()) : Status();  // a chat says so when something is shown
  options.media = media_memory(*rooms, any ? given : MediaCounts());
  options.media_may_lack_room = !any;
  return {};
}

// What the engine is to be like; what is foreseen of it goes into `run`.
Result<EngineOptions> engine_options(const ChatModel& model, const Arguments& arguments, Machine& machine,
                                     Console& console, bool talks, RunModel& run) {
  EngineOptions options = engine_options_of(arguments, model.model.facts(), model.settings.context);
  TRY_STATUS(settle_options(options, *machine.device, model.model));
  options.states = machine.states.get();
  options.experts = expert_options(arguments);
  options.adapter_room = adapter_room(arguments);
  if (!run.settings.turn.adapters.empty()) options.adapters = {run.settings.turn.adapters};
  TRY_STATUS(leave_room_for_media(model.model, arguments, *machine.device, talks, options));
  run.expert_list = expert_list_of(arguments, machine, model.model);
  options.experts.warm = hot_the_last_time(run.expert_list, console);
  measure_reserve(machine);
  const bool on_gpu = machine.device->info().memory != Domain::host;
  if (arguments.flag("--stats") && (machine.bound().strict() || on_gpu)) {
    TRY(const Foresight foresight, foresee(model.model, weight_files(model.model), machine, options, {}));
    run.foreseen = foresight.forecast;
    measure_reserve(machine);
  }
  return options;
}

}  // namespace

void keep_hot_experts(const RunModel& model, Console& console) {
  const std::vector<HotExpert> hot = model.engine().hot_experts();
  if (model.expert_list.empty() || hot.empty()) return;
  if (const Status kept = write_expert_list(model.expert_list, hot); !kept)
    console.err(cat("sluice: ", kept.error().text, " (which experts were used is not kept)\n"));
}

Result<DeviceNeeds> needs_of(const ModelFiles& files, const Arguments& arguments) {
  TRY(Model model, open_model(files, arguments));
  TRY(const StoreSettings stored, settings_of(files, model));
  WeightFiles weights = weight_files(model);
  EngineOptions options = engine_options_of(arguments, model.facts(), stored.context);
  TRY(AdapterSum adapters, open_adapters(model, files, arguments));
  if (!adapters.empty()) options.adapters = {std::move(adapters)};
  options.adapter_room = adapter_room(arguments);
  return DeviceNeeds{std::move(model), std::move(weights), options};
}

Result<std::unique_ptr<RunModel>> open_run_model(ModelFiles files, const Arguments& arguments, Machine& machine,
                                                 Console& console, const RunModelUse& use) {
  auto run = std::make_unique<RunModel>();
  run->files = std::move(files);
  if (arguments.given("--record-routing")) {
    run->meter = std::make_unique<Meter>();
    run->meter->keep_uses = true;
    run->metered = std::make_unique<MeteredDevice>(*machine.device, *run->meter);
  }
  std::optional<ProgressLine> loading;
  const auto options = [&](const ChatModel& model) -> Result<EngineOptions> {
    for (const std::string& ignored : model.model.facts().ignored)
      console.err(cat("sluice: ", ignored, ": not used\n"));
    TRY(run->settings, conversation_settings(arguments, model, use.talks));
    if (use.shelf != nullptr)
      run->adapters = *use.shelf;
    else
      TRY_ASSIGN(run->adapters, given_adapters(model.model, run->files, arguments));
    run->settings.turn.adapters = run->adapters.sum();
    TRY(EngineOptions fitting, engine_options(model, arguments, machine, console, use.talks, *run));
    loading.emplace(console, cat("loading ", printable(model.model.checkpoint().path())));
    return fitting;
  };
  Device& device = run->metered ? *run->metered : *machine.device;
  TRY(run->chat, open_chat_model({.files = run->files,
                                  .chat_template_path = arguments.text("--chat-template"),
                                  .contents = std::make_shared<ContentsFile>(contents_path(state_folder()),
                                                                             run->files.path, console),
                                  .draft_file = draft_file_of(arguments),
                                  .options = options},
                                 device, machine.budget, machine.bounds));
  loading.reset();
  if (!run->chat->draft_note.empty()) console.err(cat("sluice: ", run->chat->draft_note, '\n'));
  if (!run->chat->media_note.empty()) console.err(cat("sluice: ", run->chat->media_note, '\n'));
  if (run->metered && !run->engine().expert_stats()) {
    return error(ErrorKind::invalid, "run: --record-routing: every expert lies in memory: want a --memory or an ",
                 "--expert-memory too small for that, since choices are seen where experts are read");
  }
  return run;
}

}  // namespace sluice
