#include "checkpoint/places/model_folder.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/files/file.h"
#include "base/limits.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/draft_file.h"
#include "checkpoint/places/ollama_name.h"
#include "checkpoint/split_gguf.h"

namespace sluice {

namespace {

constexpr size_t kMaxListed = 20;  // models a sentence names
constexpr std::string_view kGguf = ".gguf";
constexpr std::string_view kProjectorMark = "mmproj";
constexpr std::string_view kHosts[] = {"hf.co/", "huggingface.co/"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// For a later part of a split model, the path of the first part. If that file is missing, opening it gives the error.
std::string first_part(const std::string& path) {
  const auto split = parse_split_name(path);
  return split ? split->path(1) : path;
}

// Whether a file beside a model cannot run by itself, judged by the beginning of its name or by its contents.
struct SideFile {
  std::string_view mark;
  bool begins;
  const char* what;
};

constexpr SideFile kSideFiles[] = {
    {"mtp-", true, "a head for multi-token prediction"},  // as is_draft_file_name()
    {"dspark-", true, "a draft model"},
    {"dflash-", true, "a draft model"},
    {"imatrix", false, "an importance matrix"},
};
constexpr const char* kAssistant = "a draft model";  // general.architecture gemma4-assistant
constexpr std::string_view kAssistantMark = "assistant";

const SideFile* side_file(std::string_view path) {
  const std::string name = lower(file_name(path));
  const auto* found = std::ranges::find_if(kSideFiles, [&](const SideFile& side) {
    return side.begins ? starts_with(name, side.mark) : name.find(side.mark) != std::string::npos;
  });
  return found == std::end(kSideFiles) ? nullptr : found;
}

// Gemma's draft models have ordinary names, so a file with "assistant" in its name is opened to find out.
bool is_assistant(const std::string& path) {
  if (lower(file_name(path)).find(kAssistantMark) == std::string::npos) return false;
  const Result<Checkpoint> opened = open_checkpoint(path);
  if (!opened) return false;
  const Result<std::string> architecture = opened->metadata().get_string("general.architecture");
  return architecture && starts_with(*architecture, "gemma4-assistant");
}

bool is_projector(const std::string& path) {
  const std::string name = lower(file_name(path));
  return ends_with(name, kGguf) && name.find(kProjectorMark) != std::string::npos;
}

// " in FOLDER", where it is one of this machine.
std::string place_of(const ModelFolder& folder) { return folder.path.empty() ? "" : cat(" in ", folder.path); }

void add_once(std::vector<std::string>& list, std::string item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(std::move(item));
}

Status collect(ModelFolder& folder, const std::string& below, int depth) {
  TRY(const auto names, list_directory(join_path(folder.path, below)));
  for (const std::string& name : names) {
    std::string path = join_path(below, name);
    if (path_kind(join_path(folder.path, path)) == PathKind::directory) {
      // An unreadable file must not hide other models.
      if (depth < kMaxFolderDepth && is_folder_name(name)) static_cast<void>(collect(folder, path, depth + 1));
    } else if (is_projector(path)) {
      if (folder.projector.empty()) folder.projector = std::move(path);
    } else if (ends_with(lower(name), kGguf)) {
      const bool side = side_file(path) != nullptr || is_assistant(join_path(folder.path, path));
      add_once(side ? folder.sides : folder.ggufs, first_part(path));
    }
  }
  return {};
}

// Name without folders, suffix and part numbers: "m-Q4_K_M" of "Q4_K_M/m-Q4_K_M-00001-of-00002.gguf".
std::string stem(const std::string& path) {
  const auto split = parse_split_name(path);
  const std::string whole = split ? split->prefix : path.substr(0, path.size() - kGguf.size());
  return std::string(file_name(whole));
}

// Words of a name that tell models apart: without "mmproj", "model" and formats.
std::set<std::string> words_of(const std::string& name) {
  static const std::set<std::string> kOthers = {
      "", std::string(kProjectorMark), "model", "f16", "bf16", "f32", "fp16", "q8", "0"};
  std::set<std::string> words;
  std::string word;
  for (const char c : lower(name) + "-") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else {
      if (!kOthers.contains(word)) words.insert(word);
      word.clear();
    }
  }
  return words;
}

// Whether a file's name is that of a draft model for the model with the other name.
bool drafts_for(const std::string& path, const std::string& gguf) {
  std::set<std::string> words = words_of(stem(path));
  const std::set<std::string> of_model = words_of(stem(gguf));
  return words.erase(std::string(kAssistantMark)) == 1 && !of_model.contains(std::string(kAssistantMark)) &&
         std::ranges::includes(of_model, words);
}

bool has_format(const std::string& path, std::string_view format) {
  const std::string name = lower(stem(path));
  const std::string wanted = lower(format);
  if (!ends_with(name, wanted)) return false;
  return name.size() == wanted.size() ||
         std::isalnum(static_cast<unsigned char>(name[name.size() - wanted.size() - 1])) == 0;
}

bool fits(const std::string& path, std::string_view wanted) {
  return wanted.empty() || first_part(std::string(wanted)) == path || has_format(path, wanted);
}

ModelFiles files_of(const ModelFolder& folder, const std::string& gguf) {
  ModelFiles files;
  files.name = folder.ggufs.size() == 1 && !folder.checkpoint ? folder.name : cat(folder.name, '/', gguf);
  files.origin = folder.origin;
  files.path = join_path(folder.path, gguf);
  if (!folder.projector.empty()) files.projector = join_path(folder.path, folder.projector);
  const std::string head = choose_draft_head(gguf, folder.sides);
  if (!head.empty()) files.draft_head = join_path(folder.path, head);
  return files;
}

ModelFiles files_of_checkpoint(const ModelFolder& folder) {
  ModelFiles files;
  files.name = folder.name;
  files.origin = folder.origin;
  files.path = folder.path;
  return files;
}

std::string listing(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kMaxListed; ++i) out += cat(i == 0 ? "" : ", ", printable(names[i], 200));
  return names.size() > kMaxListed ? cat(out, " and ", names.size() - kMaxListed, " more") : out;
}

}  // namespace

bool is_folder_name(std::string_view name) {
  if (name.empty() || name.front() == '.') return false;
  return std::ranges::all_of(
      name, [](unsigned char c) { return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'); });
}

std::string choose_draft_head(const std::string& gguf, const std::vector<std::string>& beside) {
  std::vector<std::string> heads;
  for (const std::string& path : beside) {
    if (!ends_with(lower(path), kGguf)) continue;
    if (is_draft_file_name(path) || drafts_for(path, gguf)) heads.push_back(first_part(path));
  }
  if (heads.empty()) return {};
  std::ranges::sort(heads);
  const auto same = std::ranges::find_if(heads, [&](const std::string& head) {
    const std::string name = stem(head);
    return has_format(gguf, name.substr(name.rfind('-') + 1));
  });
  return same == heads.end() ? heads.front() : *same;
}

std::optional<RepositoryName> parse_repository_name(std::string_view given) {
  for (const std::string_view host : kHosts)
    if (starts_with(given, host)) given.remove_prefix(host.size());
  std::string_view format;
  if (const size_t colon = given.rfind(':'); colon != std::string_view::npos) {
    format = given.substr(colon + 1);
    given = given.substr(0, colon);
    if (!is_folder_name(format)) return std::nullopt;
  }
  const auto parts = split(given, '/');
  if (parts.size() < 2 || !std::ranges::all_of(parts, is_folder_name)) return std::nullopt;
  RepositoryName name{parts[0], parts[1], {}};
  for (size_t i = 2; i < parts.size(); ++i) name.wanted = join_path(name.wanted, parts[i]);
  if (!name.wanted.empty()) return format.empty() ? std::optional(std::move(name)) : std::nullopt;
  // Ollama's default tag stands for any format.
  if (format != kOllamaTag) name.wanted = format;
  return name;
}

Result<ModelFolder> read_model_folder(const std::string& path, std::string name, Origin origin) {
  ModelFolder folder;
  folder.name = std::move(name);
  folder.origin = origin;
  folder.path = path;
  TRY(const auto names, list_directory(path));
  const bool weights = std::ranges::any_of(names, [](const auto& file) { return ends_with(file, ".safetensors"); });
  folder.checkpoint = weights && std::ranges::find(names, "config.json") != names.end();
  TRY_STATUS(collect(folder, "", 1));
  std::ranges::sort(folder.ggufs);
  return folder;
}

ModelFolder model_folder_of(std::string name, const std::vector<std::string>& paths, std::vector<std::string>* towers) {
  ModelFolder folder;
  folder.name = std::move(name);
  folder.origin = Origin::hugging_face;
  const bool weights = std::ranges::any_of(paths, [](const std::string& path) {
    return path.find('/') == std::string::npos && ends_with(path, ".safetensors");
  });
  folder.checkpoint = weights && std::ranges::find(paths, "config.json") != paths.end();
  for (const std::string& path : paths)
    if (is_projector(path))
      towers->push_back(path);
    else if (ends_with(lower(path), kGguf))
      add_once(side_file(path) != nullptr ? folder.sides : folder.ggufs, first_part(path));
  std::ranges::sort(folder.ggufs);
  return folder;
}

Result<ModelFiles> choose_model(const ModelFolder& folder, std::string_view wanted) {
  if (folder.checkpoint && wanted.empty()) return files_of_checkpoint(folder);
  if (folder.ggufs.empty() && !folder.checkpoint) {
    return error(ErrorKind::not_found, folder.name, ": no model", place_of(folder),
                 ": want config.json with safetensors, or a GGUF file");
  }
  std::vector<std::string> fitting;
  std::ranges::copy_if(folder.ggufs, std::back_inserter(fitting), [&](const auto& path) { return fits(path, wanted); });
  if (fitting.size() == 1) return files_of(folder, fitting.front());
  const auto side = std::ranges::find(folder.sides, first_part(std::string(wanted)));
  if (side != folder.sides.end()) {
    const SideFile* kind = side_file(*side);
    return error(ErrorKind::unsupported, folder.name, ": ", *side, " is ", kind == nullptr ? kAssistant : kind->what,
                 ": want the model that it lies beside");
  }
  if (fitting.empty()) {
    std::vector<std::string> known;
    for (const ModelFiles& files : all_models(folder)) known.push_back(files.name);
    return error(ErrorKind::not_found, folder.name, ": no model ", printable(wanted), place_of(folder),
                 ": want one of ", listing(known));
  }
  return error(ErrorKind::invalid, folder.name, ": ", fitting.size(), " models", place_of(folder),
               ": want one of them after ", folder.name, "/, of ", listing(fitting));
}

std::vector<ModelFiles> all_models(const ModelFolder& folder) {
  std::vector<ModelFiles> models;
  if (folder.checkpoint) models.push_back(files_of_checkpoint(folder));
  for (const std::string& gguf : folder.ggufs) models.push_back(files_of(folder, gguf));
  return models;
}

std::string choose_projector(const std::string& gguf, const std::vector<std::string>& beside) {
  const std::set<std::string> wanted = words_of(stem(gguf));
  size_t models = 0, most = 0;
  std::string best;
  for (const std::string& path : beside) {
    if (!ends_with(lower(path), kGguf)) continue;
    if (lower(path).find(kProjectorMark) == std::string::npos) {
      models += side_file(path) == nullptr && first_part(path) == path ? 1 : 0;
      continue;
    }
    const std::set<std::string> words = words_of(stem(path));
    if (!std::ranges::includes(wanted, words) || (!best.empty() && words.size() <= most)) continue;
    best = path;
    most = words.size();
  }
  return most == 0 && models > 1 ? "" : best;
}

}  // namespace sluice
