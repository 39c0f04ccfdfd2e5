#include "serve/site_files.h"

#include <array>
#include <span>
#include <utility>

#include "base/files/file.h"
#include "base/sha256.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr uint64_t kMostBytes = 256 << 20;   // of all files together
constexpr int kMostDepth = 8;                // folders within each other
constexpr const char* kHashed = "/assets/";  // where the build puts files whose names change with their bytes

constexpr std::array<std::pair<std::string_view, const char*>, 10> kTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".txt", "text/plain; charset=utf-8"},
    {".wasm", "application/wasm"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".woff2", "font/woff2"},
    {".json", "application/json"},
    {".webmanifest", "application/manifest+json"},
}};

const char* type_of(std::string_view path) {
  for (const auto& [ending, type] : kTypes)
    if (ends_with(path, ending)) return type;
  return "application/octet-stream";
}

// Whether If-None-Match names the tag: "*", or one of a list.
bool is_known(const ServerRequest& request, const std::string& etag) {
  const std::string* tags = request.header("if-none-match");
  return tags != nullptr && (*tags == "*" || tags->find(etag) != std::string::npos);
}

}  // namespace

Result<SiteFiles> SiteFiles::read(const std::string& folder) {
  SiteFiles page;
  TRY_STATUS(page.read_folder(folder, "/", 0));
  if (page.find("/") == nullptr)
    return error(ErrorKind::not_found, printable(folder), ": has no index.html: want the folder of a built page");
  return page;
}

Status SiteFiles::read_folder(const std::string& folder, const std::string& path, int depth) {
  if (depth > kMostDepth)
    return error(ErrorKind::invalid, printable(folder), ": lies deeper than ", kMostDepth,
                 " folders: want a built page");
  TRY(const std::vector<std::string> names, list_directory(folder));
  for (const std::string& name : names) {
    const std::string place = join_path(folder, name);
    const PathKind kind = path_kind(place);
    if (name[0] == '.') continue;
    if (kind == PathKind::directory) TRY_STATUS(read_folder(place, cat(path, name, "/"), depth + 1));
    if (kind != PathKind::file) continue;
    SiteFile file;
    file.type = type_of(name);
    file.is_named_by_hash = starts_with(path, kHashed);
    TRY_ASSIGN(file.bytes, read_file(place, kMostBytes - bytes()));
    Sha256 digest;
    digest.add(std::as_bytes(std::span(file.bytes)));
    file.etag = cat('"', digest.finish_hex().substr(0, 32), '"');
    files_.emplace(path + name, std::move(file));
  }
  return {};
}

const SiteFile* SiteFiles::find(std::string_view path) const {
  const auto found = files_.find(path == "/" ? "/index.html" : path);
  return found == files_.end() ? nullptr : &found->second;
}

uint64_t SiteFiles::bytes() const {
  uint64_t sum = 0;
  for (const auto& [path, file] : files_) sum += file.bytes.size();
  return sum;
}

// The page is alone in its process of the browser (COOP, COEP), so that it may share memory between its threads, and
// stands in no other site's frame. The rest of its policy is in its index.html.
ServerReply page_reply(const SiteFile& file, const ServerRequest& request) {
  const char* caching = file.is_named_by_hash ? "public, max-age=31536000, immutable" : "no-cache";
  ServerReply reply{.headers = {{"etag", file.etag},
                                {"cache-control", caching},
                                {"vary", "accept"},
                                {"content-security-policy", "frame-ancestors 'none'"},
                                {"cross-origin-opener-policy", "same-origin"},
                                {"cross-origin-embedder-policy", "require-corp"},
                                {"cross-origin-resource-policy", "same-origin"},
                                {"content-type", file.type}}};
  if (is_known(request, file.etag))
    reply.status = 304;
  else
    reply.lasting_body = file.bytes;
  return reply;
}

}  // namespace sluice
