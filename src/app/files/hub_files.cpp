#include "app/files/hub_files.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "checkpoint/places/model_folder.h"
#include "checkpoint/places/ollama_manifest.h"
#include "checkpoint/split_gguf.h"

namespace sluice {
namespace {

constexpr size_t kCommitDigits = 40;
constexpr size_t kMaxFiles = 20'000;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;

// Quantisations in the order in which they are taken where none is named.
constexpr std::string_view kUsual[] = {"Q4_K_M", "UD-Q4_K_XL", "Q4_K_S", "Q4_0", "IQ4_XS", "Q5_K_M", "Q8_0"};
// Towers likewise: a finer one gains nothing that a person could see.
constexpr std::string_view kUsualTowers[] = {"f16", "bf16", "q8_0"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_plain_path(const std::string& path) {
  const std::vector<std::string> parts = split(path, '/');
  return std::ranges::all_of(parts, is_folder_name);
}

std::string text_of(const Json& object, const char* name) {
  const Json* member = object.find(name);
  return member != nullptr && member->is_string() ? member->as_string() : "";
}

std::optional<uint64_t> size_of(const Json& object) {
  const Json* size = object.find("size");
  const bool fits = size != nullptr && size->is_integer() && size->as_integer() >= 0 &&
                    static_cast<uint64_t>(size->as_integer()) <= kMaxFileBytes;
  return fits ? std::optional(static_cast<uint64_t>(size->as_integer())) : std::nullopt;
}

Result<HubFile> read_file_entry(const Json& entry, const std::string& where) {
  HubFile file;
  file.path = text_of(entry, "rfilename");
  const Json* lfs = entry.find("lfs");
  const bool large = lfs != nullptr && lfs->is_object();
  const std::optional<uint64_t> bytes = size_of(large ? *lfs : entry);
  file.sha256 = large ? text_of(*lfs, "sha256") : "";
  file.blob = large ? file.sha256 : text_of(entry, "blobId");
  const bool named = large ? is_hex(file.sha256, 64) : is_hex(file.blob, kCommitDigits);
  if (!bytes || !named)
    return error(ErrorKind::corrupt, where, ": ", printable(file.path), " has no size and digest: want both");
  file.bytes = *bytes;
  return file;
}

const HubFile* find_file(const HubListing& listing, std::string_view path) {
  const auto found = std::ranges::find(listing.files, path, &HubFile::path);
  return found == listing.files.end() ? nullptr : &*found;
}

// The first of the usual quantisations that some file has; "" where none has one.
std::string usual_quantisation(const ModelFolder& folder) {
  for (const std::string_view quantisation : kUsual)
    if (choose_model(folder, quantisation)) return std::string(quantisation);
  return "";
}

// A file of towers: of several in one format each the usual one.
std::string usual_towers(const std::vector<std::string>& towers) {
  for (const std::string_view format : kUsualTowers) {
    const auto found = std::ranges::find_if(
        towers, [&](const std::string& path) { return ends_with(lower(path), cat('-', format, ".gguf")); });
    if (found != towers.end()) return *found;
  }
  return towers.empty() ? "" : towers.front();
}

// Of a directory of safetensors all that reading it takes.
bool belongs_to_directory(const std::string& path) {
  if (path.find('/') != std::string::npos || starts_with(path, "consolidated")) return false;
  static constexpr std::string_view kEnds[] = {".safetensors", ".json", ".jinja", ".model", ".txt", ".tiktoken"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return ends_with(path, end); });
}

Status add(const HubListing& listing, const std::string& path, const std::string& name, std::vector<HubFile>& chosen) {
  const HubFile* file = find_file(listing, path);
  if (file == nullptr) return error(ErrorKind::not_found, name, ": ", path, " is missing: want all parts of the model");
  chosen.push_back(*file);
  return {};
}

}  // namespace

Result<HubListing> parse_hub_listing(std::string_view text, const std::string& where) {
  TRY(const Json json, parse_json(text, where));
  HubListing listing;
  listing.commit = text_of(json, "sha");
  const Json* siblings = json.find("siblings");
  if (!is_hex(listing.commit, kCommitDigits) || siblings == nullptr || !siblings->is_array())
    return error(ErrorKind::corrupt, where, ": no commit and files: want the hub's answer about a model");
  if (siblings->as_array().size() > kMaxFiles)
    return error(ErrorKind::unsupported, where, ": ", siblings->as_array().size(), " files: want at most ", kMaxFiles);
  for (const Json& entry : siblings->as_array()) {
    if (!entry.is_object() || !is_plain_path(text_of(entry, "rfilename"))) continue;
    TRY(HubFile file, read_file_entry(entry, where));
    listing.files.push_back(std::move(file));
  }
  return listing;
}

Result<std::vector<HubFile>> choose_hub_files(const HubListing& listing, const std::string& name,
                                              std::string_view wanted) {
  std::vector<std::string> paths, towers;
  paths.reserve(listing.files.size());
  for (const HubFile& file : listing.files) paths.push_back(file.path);
  const ModelFolder folder = model_folder_of(name, paths, &towers);
  std::vector<HubFile> chosen;
  if (wanted.empty() && folder.checkpoint && folder.ggufs.empty()) {
    std::ranges::copy_if(listing.files, std::back_inserter(chosen),
                         [](const HubFile& file) { return belongs_to_directory(file.path); });
    return chosen;
  }
  const std::string usual = wanted.empty() && folder.ggufs.size() > 1 ? usual_quantisation(folder) : "";
  TRY(const ModelFiles files, choose_model(folder, wanted.empty() ? usual : wanted));
  const auto split = parse_split_name(files.path);
  for (uint32_t part = 1; part <= (split ? split->count : 1); ++part)
    TRY_STATUS(add(listing, split ? split->path(part) : files.path, name, chosen));
  if (const std::string tower = usual_towers(towers); !tower.empty()) TRY_STATUS(add(listing, tower, name, chosen));
  if (!files.draft_head.empty()) TRY_STATUS(add(listing, files.draft_head, name, chosen));
  return chosen;
}

}  // namespace sluice
