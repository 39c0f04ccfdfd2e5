// sluice serve: models behind the HTTP APIs that other programs speak.
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "app/cli/console.h"
#include "app/cli/environment.h"
#include "app/cli/interrupt.h"
#include "app/commands.h"
#include "app/open/adapters.h"
#include "app/open/open.h"
#include "app/run/run_report.h"
#include "app/serve/model_loader.h"
#include "app/serve/served_store.h"
#include "app/serve/url_fetcher.h"
#include "app/serve/wanted_models.h"
#include "base/files/file.h"
#include "base/text.h"
#include "serve/access_rules.h"
#include "serve/answer_queue.h"
#include "serve/http/http_server.h"
#include "serve/model_shelf.h"
#include "serve/request_memory.h"
#include "serve/service.h"
#include "serve/site_files.h"

namespace sluice {
namespace {

constexpr double kSignalSeconds = 0.1;  // between looks at the signals
constexpr double kNoteSeconds = 1;      // between looks at the notes about states
constexpr size_t kMaxKeyFile = 1 << 20;
constexpr const char* kNoPage = "none";
constexpr uint32_t kReadersThatFetch = 4;  // threads, since a fetch waits most of its time

// ---- the models

using Loaders = std::vector<std::shared_ptr<ModelLoader>>;

// The needs of the largest model.
Result<DeviceNeeds> needs_of_all(const std::vector<WantedModel>& wanted) {
  std::optional<DeviceNeeds> most;
  const auto bytes = [](const DeviceNeeds& needs) {
    uint64_t sum = 0;
    for (const StoredTensor& tensor : needs.model.checkpoint().tensors()) sum += tensor.bytes.size();
    return sum;
  };
  for (const WantedModel& one : wanted) {
    TRY(DeviceNeeds needs, needs_of_server(one));
    if (!most || bytes(needs) > bytes(*most)) most.emplace(std::move(needs));
  }
  return *std::move(most);
}

void say_left_out(size_t models, Console& console) {
  if (models > 0) console.err(cat("sluice: ", models, " models of the stores do not run: sluice list says why\n"));
}

// Those that the arguments name, and with --store those of the stores that a family knows. Where that is none, the
// demo.
Result<std::vector<WantedModel>> all_models(const Arguments& arguments, Console& console) {
  TRY(std::vector<WantedModel> all, wanted_models(arguments));
  for (const WantedModel& one : all) TRY_STATUS(model_files(one.model, one.arguments));
  if (!arguments.flag("--store")) return all;
  TRY(const std::vector<WantedModel> stored, stored_models(arguments, all));
  size_t left_out = 0;
  for (const WantedModel& one : stored)
    if (open_model(*one.stored, arguments))
      all.push_back(one);
    else
      ++left_out;
  say_left_out(left_out, console);
  if (!all.empty()) return all;
  TRY(const ModelFiles demo, model_files(kDemoName));
  TRY(WantedModel built_in, stored_model(demo, arguments));
  built_in.stored.reset();
  return std::vector{std::move(built_in)};
}

// Pinned models are loaded; of the others the headers are read.
struct PreparedModels {
  std::vector<ModelRecipe> recipes;
  std::vector<std::unique_ptr<LoadedModel>> loaded;  // by recipe; null: later
  std::vector<TowerRoom> towers;                     // of all
};

// A model of a store that does not run is left out.
Result<PreparedModels> prepare_models(Loaders& loaders, Machine& machine, Console& console) {
  PreparedModels prepared;
  std::vector<std::vector<ModelCard>> cards;
  Loaders able;
  for (const std::shared_ptr<ModelLoader>& loader : loaders) {
    Result<std::vector<ModelCard>> read = std::vector<ModelCard>();
    if (!loader->wanted().is_pinned) read = loader->cards();
    if (!read && !loader->wanted().stored) return read.error();
    if (!read) continue;
    cards.push_back(*std::move(read));
    able.push_back(loader);
  }
  say_left_out(loaders.size() - able.size(), console);
  loaders = std::move(able);
  if (loaders.empty()) return error(ErrorKind::unsupported, "no model of the stores runs: sluice list says why");
  measure_reserve(machine);
  for (size_t i = 0; i < loaders.size(); ++i) {
    const std::shared_ptr<ModelLoader>& loader = loaders[i];
    const WantedModel& wanted = loader->wanted();
    std::unique_ptr<LoadedModel> loaded;
    if (wanted.is_pinned) {
      TRY_ASSIGN(loaded, loader->load(/*may_lack_room=*/true, /*requests=*/true));
      cards[i].assign(loaded->variants.begin(), loaded->variants.end());
    }
    prepared.towers.insert(prepared.towers.end(), loader->towers().begin(), loader->towers().end());
    prepared.loaded.push_back(std::move(loaded));
    prepared.recipes.push_back(recipe_of(loader, std::move(cards[i])));
  }
  return prepared;
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

// Those of --socket and --host; without them 127.0.0.1.
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

// Says at once when the log cannot be written; requests are served on.
auto access_log(Console& console) {
  return [&console, told = false](const HttpRecord& record) mutable {
    console.out(log_line(record));
    if (told || console.status().ok()) return;
    told = true;
    console.err(cat("access log: ", console.status().error().text, "; it ends here\n"));
  };
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
    service.finish();
    queue.close();
  });
  queue.run();
  sockets.join();
  return failed;
}

// What goes wrong with kept states costs no request anything but time, so it is only said.
void watch_states(HttpServer& server, const Loaders& loaders, Console& console) {
  server.every(kNoteSeconds, [loaders, &console] {
    for (const auto& loader : loaders) say_notes(loader->states(), console);
  });
}

// That of --page, else the one that make install has put into share/, if any.
Result<SiteFiles> page_files(const Arguments& arguments) {
  if (arguments.text("--page") == kNoPage) return SiteFiles();
  if (arguments.given("--page")) return SiteFiles::read(arguments.text("--page"));
  const std::string installed = installed_folder("web");
  return path_kind(installed) == PathKind::directory ? SiteFiles::read(installed) : SiteFiles();
}

ServedStore::Setup store_setup(const Arguments& arguments, const Loaders& loaders) {
  ServedStore::Setup setup{
      .roots = machine_places().ollama, .arguments = arguments, .named = {}, .version = SLUICE_VERSION};
  for (const std::shared_ptr<ModelLoader>& loader : loaders)
    if (!loader->wanted().stored) setup.named.push_back(loader->files());
  return setup;
}

Result<int> serve(const Arguments& arguments, Console& console) {
  TRY(AccessRules rules, access_rules(arguments));
  TRY(const std::vector<HttpPlace> wanted_places, places(arguments, rules));
  TRY(const SiteFiles page, page_files(arguments));
  TRY(const std::unique_ptr<UrlFetcher> fetcher, UrlFetcher::create(arguments.all("--allow-urls")));
  TRY(const std::vector<WantedModel> wanted, all_models(arguments, console));
  TRY(Machine machine, open_machine(arguments, [&] { return needs_of_all(wanted); }, console));
  TRY(const Reservation for_page, machine.budget.reserve(Domain::host, Purpose::staging, page.bytes()));
  const uint64_t bound = machine.bounds.host.bytes;
  HttpLimits limits;
  limits.held_bytes = connection_memory_bytes(bound);
  limits.body_bytes = std::min(limits.body_bytes, limits.held_bytes / 2);
  TRY(const Reservation for_connections, machine.budget.reserve(Domain::host, Purpose::staging, limits.held_bytes));
  RequestMemory memory(machine.budget, text_request_bytes(bound));
  Loaders loaders;
  for (const WantedModel& one : wanted) {
    TRY(std::shared_ptr<ModelLoader> loader, ModelLoader::create(one, SLUICE_VERSION, machine, console));
    loaders.push_back(std::move(loader));
  }
  TRY(PreparedModels prepared, prepare_models(loaders, machine, console));
  const bool may_change = arguments.flag("--allow-store-changes");
  if (may_change || !prepared.towers.empty())
    memory.grow(media_request_bytes(bound, largest_input_bytes(prepared.towers)));
  ModelShelf shelf({});
  for (size_t i = 0; i < prepared.recipes.size(); ++i) {
    const size_t recipe = shelf.add(std::move(prepared.recipes[i]));
    if (prepared.loaded[i] != nullptr) shelf.put(recipe, std::move(prepared.loaded[i]));
  }
  AnswerQueue queue(shelf, static_cast<uint32_t>(arguments.integer("--queue")), rules.clients());
  std::optional<ServedStore> store;
  if (may_change) store.emplace(store_setup(arguments, loaders), shelf, queue, machine, console);
  Service::Settings settings;
  if (store) settings.store = &*store;
  settings.access = std::move(rules);
  settings.version = SLUICE_VERSION;
  settings.memory = &memory;
  settings.page = &page;
  if (arguments.given("--allow-urls")) {
    settings.fetcher = fetcher.get();
    settings.threads = kReadersThatFetch;
  }
  if (arguments.flag("--access-log")) settings.log = access_log(console);
  Service service(shelf, queue, std::move(settings));
  TRY(const std::unique_ptr<HttpServer> server, HttpServer::listen(wanted_places, limits, service));
  watch_interrupts();
  watch_termination();
  watch_signals(*server, service, arguments.number("--drain-seconds"));
  if (arguments.given("--state-dir")) watch_states(*server, loaders, console);
  std::string names;
  for (const auto& [place, card] : shelf.cards())
    if (place.variant == 0) names += cat(names.empty() ? "" : ", ", printable(card->id()));
  for (const std::string& address : server->addresses()) console.err(cat("serving ", names, " at ", address, '\n'));
  TRY_STATUS(serve_until_signal(*server, service, queue));
  for (const auto& loader : loaders) say_notes(loader->states(), console);
  return 0;
}

std::vector<OptionSpec> own_options() {
  OptionSpec adapter = adapter_option();
  adapter.argument = "[NAME=]PATH[:SCALE]";
  adapter.help =
      "adds a LoRA adapter, a folder of PEFT or MLX or a GGUF file of llama.cpp, times SCALE (1 without); may be given "
      "several times. With NAME it acts on requests for MODEL:NAME, else on all, and the changes add up";
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
      {.name = "--allow-urls",
       .argument = "HOST",
       .kind = OptionKind::text,
       .help = "fetches pictures that requests name by an http or https URL of HOST, such as example.org or "
               "example.org:8443; may be given several times. Without it nothing is fetched",
       .repeated = true},
      {.name = "--alias",
       .argument = "NAME",
       .kind = OptionKind::text,
       .help = "a name by which requests may ask for the model; the first one is shown; may be given several times",
       .repeated = true},
      {.name = "--models",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "serves the models that a JSON file lists, each with its own options; docs/server.md describes it"},
      {.name = "--store",
       .help = "serves all models of Ollama's store, the Hugging Face cache and LM Studio's folders that run, each "
               "loaded when a request asks for it"},
      {.name = "--allow-store-changes",
       .help = "lets clients of Ollama's API pull, copy and delete models in Ollama's store; what they pull or copy is "
               "served at once"},
      {.name = "--keep-alive",
       .argument = "TIME",
       .kind = OptionKind::text,
       .fallback = "-1",
       .help = "how long an idle model stays loaded: seconds, or a duration such as 5m; negative: until another one "
               "needs its memory. Without it a single MODEL stays, and models of --store have 5m"},
      {.name = "--page",
       .argument = "DIR",
       .kind = OptionKind::text,
       .help = "also serves the web page that lies there, as make web builds it into web/dist; none for no page. "
               "Without it that of make install, if it is there"},
      {.name = "--parallel",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "4",
       .help = "answers that a model makes at once; each takes cache memory",
       .least = 1,
       .most = 256},
      {.name = "--queue",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "64",
       .help = "answers that wait for a model behind those; further requests get status 503 at once. Keys share them",
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
      adapter,
  };
}

}  // namespace

CommandSpec serve_command() {
  PositionalSpec models = model_positional(/*required=*/false);
  models.repeated = true;
  return {
      .name = "serve",
      .summary = "Serves models to programs that speak the APIs of OpenAI, Anthropic or Ollama",
      .text =
          "Without a MODEL it serves the built-in one. Of several, each is loaded when a request asks for it, and the "
          "one that was used longest ago goes when memory is short. Many clients are answered at once. The same "
          "request gets the same answer however many there are, because a seed that is not given is 0. docs/server.md "
          "lists the paths and fields. SIGTERM and Ctrl-C let running answers end; a second one ends at once.",
      .positionals = {models},
      .options = join_options(
          {own_options(),
           device_options(/*answers=*/true),
           {arithmetic_option(), cache_option(), repack_option("behind"), expert_memory_option(), context_option()},
           state_options(),
           draft_options()}),
      .examples = {{"sluice serve", "the built-in demo at http://127.0.0.1:8080"},
                   {"sluice serve model.gguf --alias my-model --port 9000", "a file under another name"},
                   {"sluice serve gemma4:e2b qwen3.5:4b --memory 8G --keep-alive 10m", "two models in turn, or both"},
                   {"sluice serve --store --allow-store-changes",
                    "in Ollama's place: what lies here, and what clients pull"},
                   {"sluice serve gemma4:e2b --host 0.0.0.0 --api-key-file keys.txt", "for other machines, with keys"}},
      .run = serve,
  };
}

}  // namespace sluice
