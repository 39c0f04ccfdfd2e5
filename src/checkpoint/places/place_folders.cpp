// Where other programs keep their models: the rules of Ollama's envconfig, of huggingface_hub's constants, and of LM
// Studio's settings.
#include "base/files/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "checkpoint/places/places.h"

namespace sluice {

namespace {

// On Linux, Ollama's service runs as a user of its own. This is that user's folder.
constexpr const char* kOllamaService = "/usr/share/ollama/.ollama/models";

// A variable's folder, "~" resolved; "" when it is not set.
std::string variable(const Environment& environment, const char* name) {
  const auto found = environment.variables.find(name);
  if (found == environment.variables.end()) return {};
  const std::string& folder = found->second;
  if (folder == "~") return environment.home;
  return starts_with(folder, "~/") ? join_path(environment.home, folder.substr(2)) : folder;
}

std::vector<std::string> ollama_folders(const Environment& environment) {
  if (std::string folder = variable(environment, "OLLAMA_MODELS"); !folder.empty()) return {std::move(folder)};
  if (environment.home.empty()) return {kOllamaService};
  return {join_path(environment.home, ".ollama/models"), kOllamaService};
}

std::vector<std::string> hub_folders(const Environment& environment) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (std::string folder = variable(environment, name); !folder.empty()) return {std::move(folder)};
  if (const std::string home = variable(environment, "HF_HOME"); !home.empty()) return {join_path(home, "hub")};
  const std::string cache = variable(environment, "XDG_CACHE_HOME");
  if (!cache.empty()) return {join_path(cache, "huggingface/hub")};
  if (environment.home.empty()) return {};
  return {join_path(environment.home, ".cache/huggingface/hub")};
}

// The folder that was chosen in LM Studio's settings; "" if none was chosen or the settings cannot be read.
std::string chosen_lm_studio_folder(const std::string& lm_studio_home) {
  const std::string settings = join_path(lm_studio_home, "settings.json");
  const auto text = read_file(settings, kMaxStoreTextBytes);
  if (!text) return {};
  const auto json = parse_json(*text, settings);
  const Json* folder = json ? json->find("downloadsFolder") : nullptr;
  return folder != nullptr && folder->is_string() ? folder->as_string() : std::string();
}

// LM Studio's home folder. If it was moved, a file in the user's home names it.
std::string lm_studio_home(const Environment& environment) {
  auto pointer = read_file(join_path(environment.home, ".lmstudio-home-pointer"), kMaxStoreTextBytes);
  if (!pointer) return join_path(environment.home, ".lmstudio");
  while (!pointer->empty() && (pointer->back() == '\n' || pointer->back() == '\r')) pointer->pop_back();
  return *std::move(pointer);
}

std::vector<std::string> lm_studio_folders(const Environment& environment) {
  if (environment.home.empty()) return {};
  const std::string home = lm_studio_home(environment);
  std::string chosen = chosen_lm_studio_folder(home);
  if (chosen.empty()) chosen = join_path(home, "models");
  return {std::move(chosen), join_path(environment.home, ".cache/lm-studio/models")};
}

}  // namespace

Places find_places(const Environment& environment) {
  return {ollama_folders(environment), hub_folders(environment), lm_studio_folders(environment)};
}

}  // namespace sluice
