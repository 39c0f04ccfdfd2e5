#include "checkpoint/places/places.h"

#include <algorithm>
#include <optional>

#include "base/files/file.h"
#include "checkpoint/draft_file.h"
#include "checkpoint/places/hub_cache.h"
#include "checkpoint/places/model_folder.h"
#include "checkpoint/places/ollama_store.h"

namespace sluice {

namespace {

// None: the model is not in this place. An error: it is there but cannot be used.
using Finding = std::optional<Result<ModelFiles>>;

std::string listing(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += cat(out.empty() ? "" : ", ", name);
  return out;
}

// ---- Ollama

// The error when the model is in the store under other tags only.
Error wrong_tag(const OllamaName& name, const std::string& root, const std::vector<OllamaName>& tagged) {
  std::vector<std::string> names;
  std::ranges::transform(tagged, std::back_inserter(names), &OllamaName::text);
  return error(ErrorKind::not_found, name.text(), ": no such tag in ", root, ": want one of ", listing(names));
}

Finding find_in_ollama(const OllamaName& name, const Places& places) {
  Finding other_tag;
  for (const std::string& root : places.ollama) {
    if (path_kind(ollama_manifest_path(root, name)) == PathKind::file) return open_ollama_model(root, name);
    const auto tagged = list_ollama_tags(root, name);
    if (!tagged.empty() && !other_tag) other_tag = wrong_tag(name, root, tagged);
  }
  return other_tag;
}

// ---- repositories

Result<ModelFiles> choose_in(const std::string& folder, const RepositoryName& name, Origin origin) {
  TRY(const ModelFolder models, read_model_folder(folder, name.text(), origin));
  return choose_model(models, name.wanted);
}

Finding find_in_hub(const RepositoryName& name, const Places& places) {
  for (const std::string& root : places.hugging_face) {
    const auto snapshot = hub_snapshot(root, name.organisation, name.repository);
    if (!snapshot) continue;
    if (!*snapshot) return Error(snapshot->error());
    return choose_in(**snapshot, name, Origin::hugging_face);
  }
  return std::nullopt;
}

Finding find_in_lm_studio(const RepositoryName& name, const Places& places) {
  for (const std::string& root : places.lm_studio) {
    const std::string folder = join_path(root, name.text());
    if (path_kind(folder) == PathKind::directory) return choose_in(folder, name, Origin::lm_studio);
  }
  return std::nullopt;
}

// ---- one answer

Error not_found(const std::string& given) {
  return error(ErrorKind::not_found, printable(given), ": no file or model of that name on this machine");
}

// Chooses among the findings in all places. A usable model wins over a broken one.
Result<ModelFiles> only_one(const std::string& given, const std::vector<Result<ModelFiles>>& findings) {
  if (findings.empty()) return not_found(given);
  std::vector<ModelFiles> whole;
  for (const auto& finding : findings)
    if (finding) whole.push_back(*finding);
  if (whole.empty()) return findings.front();
  if (whole.size() == 1) return whole.front();
  std::string paths;
  for (const ModelFiles& files : whole)
    paths += cat(paths.empty() ? "" : " and ", files.path, " (", origin_name(files.origin), ')');
  return error(ErrorKind::invalid, printable(given), ": ", whole.size(), " models of that name, ", paths,
               ": want the path of one");
}

ModelFiles model_at(const std::string& path) {
  ModelFiles files;
  files.name = path;
  files.path = path;
  if (path_kind(path) != PathKind::file || is_draft_file_name(path)) return files;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Result<std::vector<std::string>> beside = list_directory(folder);
  if (!beside) return files;
  const auto found = [&](const std::string& name) {
    return name.empty() || slash == std::string::npos ? name : join_path(folder, name);
  };
  files.draft_head = found(choose_draft_head(path, *beside));
  files.projector = found(choose_projector(path, *beside));
  return files;
}

bool is_only_a_path(const std::string& given) {
  return given.empty() || given.front() == '/' || given.front() == '.' || given.front() == '~';
}

// ---- listing

void list_ollama(const Places& places, std::vector<ListedModel>& models) {
  for (const std::string& root : places.ollama)
    for (const OllamaName& name : list_ollama_models(root))
      models.push_back({name.text(), Origin::ollama, open_ollama_model(root, name)});
}

void list_folder(const Result<std::string>& folder, const RepositoryName& name, Origin origin,
                 std::vector<ListedModel>& models) {
  auto found = folder ? read_model_folder(*folder, name.text(), origin) : Result<ModelFolder>(folder.error());
  if (!found) {
    models.push_back({name.text(), origin, std::move(found).error()});
    return;
  }
  for (ModelFiles& files : all_models(*found)) models.push_back({files.name, origin, files});
}

void list_hub(const Places& places, std::vector<ListedModel>& models) {
  for (const std::string& root : places.hugging_face) {
    for (const RepositoryName& name : list_hub_repositories(root)) {
      const auto snapshot = hub_snapshot(root, name.organisation, name.repository);
      if (snapshot) list_folder(*snapshot, name, Origin::hugging_face, models);
    }
  }
}

void list_lm_studio(const Places& places, std::vector<ListedModel>& models) {
  for (const std::string& root : places.lm_studio) {
    const auto publishers = list_directory(root);
    for (const std::string& publisher : publishers ? *publishers : std::vector<std::string>()) {
      const auto repositories = list_directory(join_path(root, publisher));
      for (const std::string& repository : repositories ? *repositories : std::vector<std::string>()) {
        const std::string folder = join_path(join_path(root, publisher), repository);
        const bool named = is_folder_name(publisher) && is_folder_name(repository);
        if (!named || path_kind(folder) != PathKind::directory) continue;
        list_folder(folder, {publisher, repository, {}}, Origin::lm_studio, models);
      }
    }
  }
}

}  // namespace

Result<ModelFiles> find_model(const std::string& given, const Places& places) {
  if (path_kind(given) != PathKind::missing) return model_at(given);
  if (is_only_a_path(given)) return error(ErrorKind::not_found, printable(given), ": no such file or directory");
  std::vector<Result<ModelFiles>> findings;
  const auto add = [&](Finding finding) {
    if (finding) findings.push_back(*std::move(finding));
  };
  const auto ollama = parse_ollama_name(given);
  if (ollama) add(find_in_ollama(*ollama, places));
  // A name with a host is Ollama's. The hub's cache is searched only if Ollama's store does not have the model.
  const bool settled = ollama && !ollama->on_default_host() && !findings.empty() && findings.front().ok();
  const auto repository = parse_repository_name(given);
  if (repository && !settled) {
    add(find_in_hub(*repository, places));
    add(find_in_lm_studio(*repository, places));
  }
  return only_one(given, findings);
}

std::vector<ListedModel> list_models(const Places& places) {
  std::vector<ListedModel> models;
  list_ollama(places, models);
  list_hub(places, models);
  list_lm_studio(places, models);
  return models;
}

}  // namespace sluice
