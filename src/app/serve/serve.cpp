// sluice serve: a model behind the HTTP APIs that other programs speak.
#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "app/cli/console.h"
#include "app/cli/environment.h"
#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "app/commands.h"
#include "app/open/adapters.h"
#include "app/open/contents_file.h"
#include "app/open/open.h"
#include "base/files/file.h"
#include "base/text.h"
#include "checkpoint/file_type.h"
#include "engine/plan/tower_room.h"
#include "serve/access_rules.h"
#include "serve/answer_queue.h"
#include "serve/http/http_server.h"
#include "serve/request_memory.h"
#include "serve/service.h"

namespace sluice {
namespace {

constexpr double kSignalSeconds = 0.1;  // between looks at the signals
constexpr size_t kMaxKeyFile = 1 << 20;

// ---- the model

uint64_t bytes_for_requests(const Machine& machine, std::span<const TowerRoom> towers) {
  return request_memory_bytes(machine.bounds.host.bytes, largest_input_bytes(towers));
}

// For a picture and a sound of every answer that is made at once, and for the reading of requests. A model is served
// without that room as well. Returns what the model's towers take.
std::vector<TowerRoom> leave_room_for_media(const Model& model, const Arguments& arguments, const Machine& machine,
                                            EngineOptions& options) {
  Result<std::vector<TowerRoom>> rooms =
      tower_rooms(model, *machine.device, options.arithmetic, picture_options(arguments));
  if (!rooms || rooms->empty()) return {};
  options.media = media_memory(*rooms, {.pictures = options.sequences, .sounds = options.sequences});
  options.media.push_back({Domain::host, Purpose::staging, bytes_for_requests(machine, *rooms)});
  options.media_may_lack_room = true;
  return *std::move(rooms);
}

Result<EngineOptions> engine_options(const ChatModel& model, const ModelFiles& files, const Arguments& arguments,
                                     Machine& machine, std::vector<TowerRoom>& towers) {
  EngineOptions options = engine_options_of(arguments, model.model.facts(), model.settings.context);
  options.sequences = static_cast<uint32_t>(arguments.integer("--parallel"));
  options.experts = expert_options(arguments);
  TRY(AdapterSum adapters, open_adapters(model.model, files, arguments));
  if (!adapters.empty()) options.adapters = {std::move(adapters)};
  towers = leave_room_for_media(model.model, arguments, machine, options);
  measure_reserve(machine);
  return options;
}

Result<std::unique_ptr<ChatModel>> open_served(const ModelFiles& files, const Arguments& arguments, Machine& machine,
                                               std::vector<TowerRoom>& towers, Console& console) {
  std::optional<ProgressLine> loading;
  const auto options = [&](const ChatModel& model) -> Result<EngineOptions> {
    for (const std::string& ignored : model.model.facts().ignored)
      console.err(cat("sluice: ", ignored, ": not used\n"));
    TRY(EngineOptions fitting, engine_options(model, files, arguments, machine, towers));
    loading.emplace(console, cat("loading ", printable(model.model.checkpoint().path())));
    return fitting;
  };
  TRY(std::unique_ptr<ChatModel> opened,
      open_chat_model({.files = files,
                       .chat_template_path = arguments.text("--chat-template"),
                       .contents = std::make_shared<ContentsFile>(contents_path(state_folder()), files.path, console),
                       .draft_head = draft_of(arguments).kind == DraftKind::mtp,
                       .options = options},
                      *machine.device, machine.budget, machine.bounds));
  loading.reset();
  if (!opened->media_note.empty()) console.err(cat("sluice: ", opened->media_note, '\n'));
  return opened;
}

Result<DeviceNeeds> needs_of_server(const ModelFiles& files, const Arguments& arguments) {
  TRY(Model model, open_model(files, arguments));
  TRY(const StoreSettings stored, settings_of(files, model));
  WeightFiles weights = weight_files(model);
  EngineOptions options = engine_options_of(arguments, model.facts(), stored.context);
  options.sequences = static_cast<uint32_t>(arguments.integer("--parallel"));
  TRY(AdapterSum adapters, open_adapters(model, files, arguments));
  if (!adapters.empty()) options.adapters = {std::move(adapters)};
  return DeviceNeeds{std::move(model), std::move(weights), options};
}

// A file is named as it is without its folder and ".gguf".
std::string shown_name(const std::string& name) {
  if (path_kind(name) == PathKind::missing) return name;
  std::string shown = std::filesystem::path(name).lexically_normal().filename().string();
  if (shown.empty()) shown = std::filesystem::path(name).lexically_normal().parent_path().filename().string();
  return ends_with(shown, ".gguf") ? shown.substr(0, shown.size() - 5) : shown;
}

// Size and time of the model's files.
void describe_files(const Checkpoint& checkpoint, ServedModel& served) {
  for (const std::string& file : checkpoint.files()) {
    std::error_code failed;
    const uintmax_t bytes = std::filesystem::file_size(file, failed);
    if (!failed) served.bytes += bytes;
    const auto written = std::filesystem::last_write_time(file, failed);
    if (failed) continue;
    const auto time = std::chrono::file_clock::to_sys(written).time_since_epoch();
    served.created = std::max<int64_t>(served.created, std::chrono::duration_cast<std::chrono::seconds>(time).count());
  }
}

Result<ServedModel> served_model(const ChatModel& model, const std::string& name, const ModelFiles& files,
                                 const Arguments& arguments) {
  ServedModel served;
  served.names = arguments.all("--alias");
  served.names.push_back(shown_name(name));
  served.text = &model.text;
  served.model = &model.model;
  served.pictures = picture_options(arguments);
  served.facts = &model.model.facts();
  served.context = model.engine->context();
  served.sampling = model.settings.sampling;
  served.stops = model.settings.stops;
  served.system = model.settings.system;
  TRY(served.adapters, open_adapters(model.model, files, arguments));
  served.version = SLUICE_VERSION;
  const Checkpoint& checkpoint = model.model.checkpoint();
  served.file_kind = checkpoint.dialect() == Dialect::gguf ? "gguf" : "safetensors";
  served.weights = format_label(checkpoint);
  describe_files(checkpoint, served);
  return served;
}

// ---- the server

Result<AccessRules> access_rules(const Arguments& arguments) {
  AccessRules rules;
  rules.hosts = arguments.all("--allow-host");
  if (arguments.given("--api-key-file")) {
    const std::string path = arguments.text("--api-key-file");
    TRY(const std::string text, read_file(path, kMaxKeyFile));
    TRY_ASSIGN(rules.keys, read_keys(text, path));
  }
  return rules;
}

// Without --host both loopback addresses, as far as the machine has them.
Result<std::vector<HttpPlace>> places(const Arguments& arguments, const AccessRules& rules) {
  std::vector<HttpPlace> all;
  if (arguments.given("--socket")) all.push_back({.host = {}, .port = 0, .unix_path = arguments.text("--socket")});
  const auto port = static_cast<uint16_t>(arguments.integer("--port"));
  const std::vector<std::string> hosts = arguments.all("--host");
  for (const std::string& host : hosts) {
    if (!is_loopback(host) && rules.keys.empty() && !arguments.flag("--allow-anyone"))
      return error(ErrorKind::invalid, "--host ", printable(host),
                   ": other machines could ask, too: want --api-key-file, or --allow-anyone");
    all.push_back({.host = host, .port = port, .unix_path = {}});
  }
  if (hosts.empty() && (all.empty() || arguments.given("--port")))
    all.push_back({.host = "127.0.0.1", .port = port, .unix_path = {}});
  return all;
}

std::string log_line(const HttpRecord& record) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Json line = Json::Object{{"time", std::chrono::duration<double>(now).count()},
                           {"method", printable(record.method)},
                           {"path", printable(record.path)},
                           {"status", record.status},
                           {"complete", record.complete},
                           {"seconds", record.seconds},
                           {"bytes_in", static_cast<int64_t>(record.bytes_in)},
                           {"bytes_out", static_cast<int64_t>(record.bytes_out)}};
  for (const auto& [name, value] : record.notes) line.add(name, value);
  return write_json(line) + "\n";
}

// After the first signal no new request is taken, and answers have some seconds to end.
void watch_signals(HttpServer& server, Service& service, double seconds) {
  using Clock = std::chrono::steady_clock;
  auto end = std::make_shared<std::optional<Clock::time_point>>();
  server.every(kSignalSeconds, [&server, &service, end, seconds] {
    if (!interrupted()) return;
    if (*end) {
      if (Clock::now() > **end) server.stop();
      return;
    }
    *end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    service.drain();
    server.drain();
  });
}

// Sockets on a thread of their own, the engine on this one.
Status serve_until_signal(HttpServer& server, Service& service, AnswerQueue& queue) {
  Status failed;
  std::thread sockets([&] {
    try {
      server.run();
    } catch (const std::exception& thrown) {
      failed = error(ErrorKind::io, "serve: the sockets' thread ended: ", thrown.what());
    }
    service.finish_reading();
    queue.close();
  });
  queue.run();
  sockets.join();
  return failed;
}

Result<int> serve(const Arguments& arguments, Console& console) {
  const std::string name = arguments.positionals().empty() ? kDemoName : arguments.positionals()[0];
  TRY(AccessRules rules, access_rules(arguments));
  TRY(const std::vector<HttpPlace> wanted, places(arguments, rules));
  TRY(const ModelFiles files, model_files(name, arguments));
  TRY(Machine machine, open_machine(arguments, [&] { return needs_of_server(files, arguments); }, console));
  std::vector<TowerRoom> towers;
  TRY(const std::unique_ptr<ChatModel> model, open_served(files, arguments, machine, towers, console));
  TRY(ServedModel served, served_model(*model, name, files, arguments));
  std::optional<RequestMemory> memory;
  if (!towers.empty()) {
    served.input_bytes = largest_input_bytes(towers);
    served.memory = &memory.emplace(machine.budget, bytes_for_requests(machine, towers));
  }
  AnswerQueue queue(model->text, *model->engine,
                    {.running = static_cast<uint32_t>(arguments.integer("--parallel")),
                     .waiting = static_cast<uint32_t>(arguments.integer("--queue"))});
  Service::Settings settings;
  settings.access = std::move(rules);
  if (arguments.flag("--access-log")) settings.log = [&](const HttpRecord& record) { console.out(log_line(record)); };
  Service service(served, queue, std::move(settings));
  TRY(const std::unique_ptr<HttpServer> server, HttpServer::listen(wanted, {}, service));
  watch_interrupts();
  watch_termination();
  watch_signals(*server, service, arguments.number("--drain-seconds"));
  for (const std::string& address : server->addresses())
    console.err(cat("serving ", printable(served.id()), " at ", address, '\n'));
  TRY_STATUS(serve_until_signal(*server, service, queue));
  return 0;
}

std::vector<OptionSpec> own_options() {
  return {
      {.name = "--host",
       .argument = "ADDRESS",
       .kind = OptionKind::text,
       .help = "where to listen; may be given several times; without it 127.0.0.1. An address that other machines "
               "reach needs --api-key-file",
       .repeated = true},
      {.name = "--port",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "8080",
       .help = "the port; 0 for any free one. The addresses are printed on standard error",
       .most = 65535},
      {.name = "--socket",
       .argument = "PATH",
       .kind = OptionKind::text,
       .help = "listens on a UNIX socket that only this user may use; without --host and --port on that alone"},
      {.name = "--api-key-file",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "keys, one a line, of which every request must give one; /health needs none"},
      {.name = "--allow-anyone", .help = "listens on addresses that other machines reach without asking for a key"},
      {.name = "--allow-host",
       .argument = "NAME",
       .kind = OptionKind::text,
       .help = "a name in Host and Origin headers that is served beside localhost and addresses; may be given several "
               "times",
       .repeated = true},
      {.name = "--alias",
       .argument = "NAME",
       .kind = OptionKind::text,
       .help = "a name by which requests may ask for the model; the first one is shown; may be given several times",
       .repeated = true},
      {.name = "--parallel",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "4",
       .help = "answers that are made at once; each takes cache memory",
       .least = 1,
       .most = 256},
      {.name = "--queue",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "64",
       .help = "answers that wait behind those; further requests get status 503 at once",
       .most = 1e6},
      {.name = "--drain-seconds",
       .argument = "S",
       .kind = OptionKind::number,
       .fallback = "30",
       .help = "the time that answers have to end after SIGTERM or Ctrl-C",
       .most = 1e6},
      {.name = "--access-log",
       .help = "prints a JSON object for each request on standard output, without what was said"},
      {.name = "--chat-template",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "a Jinja template in place of the model's own"},
      mmproj_option(),
      image_tokens_option(),
      adapter_option(),
  };
}

}  // namespace

CommandSpec serve_command() {
  return {
      .name = "serve",
      .summary = "Serves a model to programs that speak the APIs of OpenAI, Anthropic or Ollama",
      .text =
          "Without a MODEL it serves the built-in one. Many clients are answered at once. The same request gets the "
          "same answer however many there are, because a seed that is not given is 0. docs/server.md lists the "
          "paths and fields. SIGTERM and Ctrl-C let running answers end; a second one ends at once.",
      .positionals = {model_positional(/*required=*/false)},
      .options = join_options(
          {own_options(),
           device_options(/*answers=*/true),
           {arithmetic_option(), cache_option(), repack_option("behind"), expert_memory_option(), context_option()},
           draft_options()}),
      .examples = {{"sluice serve", "the built-in demo at http://127.0.0.1:8080"},
                   {"sluice serve model.gguf --alias my-model --port 9000", "a file under another name"},
                   {"sluice serve gemma4:e2b --host 0.0.0.0 --api-key-file keys.txt", "for other machines, with keys"}},
      .run = serve,
  };
}

}  // namespace sluice
