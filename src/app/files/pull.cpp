// sluice pull: fetches a model. A file by its URL here; what an Ollama registry's manifest names in pull_manifest.cpp.
#include "app/files/pull.h"

#include <algorithm>
#include <iterator>

#include "app/cli/environment.h"
#include "app/cli/interrupt.h"
#include "app/commands.h"
#include "app/files/http.h"
#include "base/files/file.h"
#include "base/text.h"
#include "checkpoint/places/ollama_manifest.h"

namespace sluice {
namespace {

constexpr size_t kMaxNameBytes = 200;  // leaves room for ".part.json" in what file systems take

// The name a URL's file is kept under: the last part of its path.
Result<std::string> name_of_file(const std::string& url) {
  TRY(const Url parts, parse_url(url));
  const std::string name = parts.path.empty() ? "" : parts.path.back();
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos || name.size() > kMaxNameBytes)
    return error(ErrorKind::invalid, printable(url, 200), ": names no file: want a URL that ends in a file's name");
  return name;
}

// A file under the finished name is only taken for the one wanted when its digest says so.
Result<Pulled> already_there(const std::string& path, const std::string& sha256, Console& console) {
  if (sha256.empty())
    return error(ErrorKind::invalid, path, ": is there already: want another --to, or --sha256 to check it");
  ProgressLine progress(console, cat("checking ", printable(path)), "bytes");
  TRY(const std::string found, file_sha256(path, progress));
  if (found != sha256) {
    return error(ErrorKind::invalid, path, ": is there already with SHA-256 ", found, ": want ", sha256,
                 " or another --to");
  }
  TRY(const auto source, FileSource::open(path));
  return Pulled{path, path, source->size(), 0, found};
}

Result<std::string> wanted_sha256(const Arguments& arguments) {
  if (!arguments.given("--sha256")) return std::string();
  const std::string given = arguments.text("--sha256");
  const auto hex = parse_digest(starts_with(given, "sha256") ? given : "sha256:" + given);
  if (!hex)
    return error(ErrorKind::invalid, "--sha256: found ", printable(given), ": want 64 hexadecimal digits, lower case");
  return *hex;
}

Status check_pull(const Arguments& arguments, const Console&) {
  TRY_STATUS(wanted_sha256(arguments));
  TRY(const PullRequest request, pull_request(arguments.positionals()[0], arguments.text("--to")));
  if (!request.hub || !arguments.given("--sha256")) return {};
  return error(ErrorKind::invalid, "pull: --sha256: the hub names the digests of its files: want it left out");
}

constexpr std::string_view kHubHosts[] = {"hf.co", "huggingface.co"};

bool is_hub_host(std::string_view host) { return std::ranges::find(kHubHosts, host) != std::end(kHubHosts); }

bool is_url(std::string_view what) { return what.find("://") != std::string_view::npos; }

PullRequest hub_request(RepositoryName name, const std::string& folder) {
  PullRequest request{.url = hub_endpoint(), .folder = folder, .hub = std::move(name), .plain_files = !folder.empty()};
  if (folder.empty()) request.folder = machine_places().hugging_face.front();
  return request;
}

// A page of the hub is taken for what it shows: a repository, or a file of it.
Result<PullRequest> url_request(const std::string& what, const std::string& folder) {
  TRY(const Url parts, parse_url(what));
  if (is_hub_host(parts.host) && parts.path.size() == 2)
    if (auto name = parse_repository_name(cat(parts.path[0], '/', parts.path[1]))) return hub_request(*name, folder);
  PullRequest request{.url = what, .folder = folder};
  const bool page = is_hub_host(parts.host) && parts.path.size() > 4 && parts.path[2] == "blob";
  if (page) request.url.replace(request.url.find("/blob/"), 6, "/resolve/");
  if (folder.empty()) request.folder = is_manifest_url(what) ? machine_places().ollama.front() : ".";
  return request;
}

Result<PullRequest> read_request(const Arguments& arguments) {
  TRY(PullRequest request, pull_request(arguments.positionals()[0], arguments.text("--to")));
  TRY(request.sha256, wanted_sha256(arguments));
  request.options.timeout_seconds = static_cast<uint32_t>(arguments.integer("--timeout"));
  request.options.retries = static_cast<uint32_t>(arguments.integer("--retries"));
  return request;
}

std::string as_text(const Pulled& pulled) {
  const bool file = pulled.name == pulled.path && !pulled.sha256.empty();
  return cat(printable(pulled.name, 200), "  ", format_bytes(pulled.bytes), "  ",
             file ? "sha256:" + pulled.sha256 : pulled.path, "\n");
}

Json as_json(const Pulled& pulled) {
  return Json::Object{{"path", pulled.path},
                      {"name", pulled.name},
                      {"bytes", static_cast<int64_t>(pulled.bytes)},
                      {"fetched", static_cast<int64_t>(pulled.fetched)},
                      {"sha256", pulled.sha256}};
}

Result<int> run(const Arguments& arguments, Console& console) {
  TRY(const PullRequest request, read_request(arguments));
  watch_interrupts();
  TRY(const Pulled pulled, pull(request, console));
  if (arguments.flag("--json"))
    console.json(as_json(pulled));
  else
    console.out(as_text(pulled));
  return 0;
}

}  // namespace

// "host/namespace/model:tag" at its host, others at Ollama's.
PullRequest ollama_pull(const OllamaName& name, const std::string& folder) {
  const std::string base = name.on_default_host() ? ollama_registry() : cat("https://", name.host);
  return {.url = cat(base, "/v2/", name.name_space, '/', name.model, "/manifests/", name.tag),
          .folder = folder.empty() ? machine_places().ollama.front() : folder,
          .ollama = name};
}

// One word is a name of Ollama's. Two are a repository of the hub, as most that people paste. Three are a name of
// Ollama's where the first is a host, and a file of a repository else.
Result<PullRequest> pull_request(const std::string& what, const std::string& folder) {
  if (is_url(what)) return url_request(what, folder);
  const std::vector<std::string> parts = split(what, '/');
  const bool at_host = parts.size() == 3 && parts[0].find_first_of(".:") != std::string::npos;
  const auto ollama = parse_ollama_name(what);
  if (ollama && (parts.size() == 1 || (at_host && !is_hub_host(parts[0])))) return ollama_pull(*ollama, folder);
  if (auto name = parse_repository_name(what)) return hub_request(*std::move(name), folder);
  return error(
      ErrorKind::invalid, "pull: ", printable(what, 200),
      ": want a name such as gemma4:e2b or hf.co/org/repo:Q4_K_M, or a URL that begins with http:// or https://");
}

Result<Pulled> pull(const PullRequest& request, Console& console) {
  if (request.hub) return pull_hub(request, console);
  return request.ollama || is_manifest_url(request.url) ? pull_manifest(request, console) : pull_file(request, console);
}

Result<PullOffer> look_up(const PullRequest& request, Console& console) {
  return request.hub ? look_up_hub(request) : look_up_manifest(request, console);
}

Result<Pulled> pull_file(const PullRequest& request, Console& console) {
  TRY(const std::string name, name_of_file(request.url));
  TRY_STATUS(make_folders(request.folder));
  const std::string path = request.folder == "." ? name : join_path(request.folder, name);
  if (path_kind(path) != PathKind::missing) return already_there(path, request.sha256, console);
  ProgressLine progress(console, cat("pulling ", printable(name)), "bytes");
  TRY(const Downloaded done, download({request.url, path, request.sha256, {}, request.options}, progress));
  return Pulled{path, path, done.bytes, done.fetched, done.sha256};
}

CommandSpec pull_command() {
  return {
      .name = "pull",
      .aliases = "download",
      .summary = "Fetches a model",
      .text =
          "A name such as gemma4:e2b is looked up in Ollama's registry and goes into Ollama's store. hf.co/org/repo or "
          "org/repo is a repository of Hugging Face and goes into its cache: the GGUF file of the quantisation named "
          "behind a colon (Q4_K_M without one), all its parts, its towers and its draft head; where there is no GGUF "
          "file, the whole directory of safetensors. Other programs find what lies there, too. With --to the files go "
          "into a folder under their own names, or into another store. A file of any server is fetched by its URL; the "
          "URL of a manifest (.../v2/NAMESPACE/MODEL/manifests/TAG) fetches a model of another registry. "
          "When the connection fails, the fetched part is kept, and the same command continues from there. A file gets "
          "its final name only when its length and digest are right.",
      .positionals = {{"NAME", true, "a model's name, or a URL of a file, a manifest or a repository"}},
      .options = {{.name = "--sha256",
                   .argument = "HEX",
                   .kind = OptionKind::text,
                   .help = "the digest that the file or the manifest must have"},
                  {.name = "--to",
                   .argument = "DIR",
                   .kind = OptionKind::text,
                   .help = "the folder for the files, or the store for a model of Ollama's; without it, the store "
                           "where programs look for it, and for a URL the current folder"},
                  {.name = "--retries",
                   .argument = "N",
                   .kind = OptionKind::integer,
                   .fallback = "5",
                   .help = "attempts in a row that bring no byte before it gives up",
                   .most = 1000},
                  {.name = "--timeout",
                   .argument = "SECONDS",
                   .kind = OptionKind::integer,
                   .fallback = "60",
                   .help = "how long the server may be silent",
                   .least = 1,
                   .most = 86400},
                  {.name = "--json", .help = "print one JSON object"}},
      .examples = {{"sluice pull gemma4:e2b", "a model of Ollama's registry"},
                   {"sluice pull hf.co/org/repo:Q8_0", "one quantisation of a repository of Hugging Face"},
                   {"HF_TOKEN=hf_... sluice pull org/repo --to models",
                    "one whose terms must be accepted, into a folder"},
                   {"sluice pull https://example.org/model-Q4_K_M.gguf", "one file, into the current folder"}},
      .json = {{"path", "string", "the file; for a manifest the model's file"},
               {"name", "string", "the name by which other commands find the model"},
               {"bytes", "integer", "bytes of all files"},
               {"fetched", "integer", "bytes fetched over the network this time"},
               {"sha256", "string",
                "the digest of the file or the manifest; empty for a repository, whose files have one each"}},
      .check = check_pull,
      .run = run,
  };
}

}  // namespace sluice
