// sluice pull: fetches a model. A file by its URL here; what an Ollama registry's manifest names in pull_manifest.cpp.
#include "app/files/pull.h"

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
  return {};
}

Result<PullRequest> read_request(const Arguments& arguments, bool manifest) {
  PullRequest request;
  request.url = arguments.positionals()[0];
  TRY(request.sha256, wanted_sha256(arguments));
  request.folder = arguments.text("--to");
  if (request.folder.empty() && !manifest) request.folder = ".";
  if (request.folder.empty()) request.folder = machine_places().ollama.front();
  request.options.timeout_seconds = static_cast<uint32_t>(arguments.integer("--timeout"));
  request.options.retries = static_cast<uint32_t>(arguments.integer("--retries"));
  return request;
}

std::string as_text(const Pulled& pulled) {
  const bool file = pulled.name == pulled.path;
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
  const bool manifest = is_manifest_url(arguments.positionals()[0]);
  TRY(const PullRequest request, read_request(arguments, manifest));
  watch_interrupts();
  const Result<Pulled> pulled = manifest ? pull_manifest(request, console) : pull_file(request, console);
  TRY_STATUS(pulled);
  if (arguments.flag("--json"))
    console.json(as_json(*pulled));
  else
    console.out(as_text(*pulled));
  return 0;
}

}  // namespace

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
      .summary = "Fetches a model over HTTP",
      .text =
          "A file goes into a folder under its own name. The URL of a manifest, as Ollama's registry and others "
          "have them (.../v2/NAMESPACE/MODEL/manifests/TAG), fetches a whole model with the digests of its files "
          "into a store of Ollama's form. When the connection fails, the fetched part is kept, and the same "
          "command continues from there. A file gets its final name only when its length and digest are right.",
      .positionals = {{"URL", true, "http:// or https://, of a file or a manifest"}},
      .options = {{.name = "--sha256",
                   .argument = "HEX",
                   .kind = OptionKind::text,
                   .help = "the digest that the file or the manifest must have"},
                  {.name = "--to",
                   .argument = "DIR",
                   .kind = OptionKind::text,
                   .help = "the folder for the file, or the store for a model; without it, the current folder, or "
                           "Ollama's store"},
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
      .examples = {{"sluice pull https://example.org/model-Q4_K_M.gguf", "one file, into the current folder"},
                   {"sluice pull https://registry.ollama.ai/v2/library/gemma4/manifests/e2b",
                    "a model of Ollama's registry, as gemma4:e2b"}},
      .json = {{"path", "string", "the file; for a manifest the model's file"},
               {"name", "string", "the name by which other commands find the model"},
               {"bytes", "integer", "bytes of all files"},
               {"fetched", "integer", "bytes fetched over the network this time"},
               {"sha256", "string", "the digest of the file or the manifest"}},
      .check = check_pull,
      .run = run,
  };
}

}  // namespace sluice
