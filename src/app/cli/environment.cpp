#include "app/cli/environment.h"

#include <cstdlib>

#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  return value == nullptr ? "" : value;
}

std::string without_slash(std::string address) {
  while (ends_with(address, "/")) address.pop_back();
  return address;
}

constexpr uint64_t kMaxTokenBytes = 4096;

}  // namespace

Places machine_places() {
  Environment environment;
  environment.home = variable("HOME");
  for (const char* name : kPlaceVariables)
    if (std::string value = variable(name); !value.empty()) environment.variables.emplace(name, std::move(value));
  return find_places(environment);
}

std::string state_folder() {
  const std::string state = variable("XDG_STATE_HOME"), home = variable("HOME");
  if (!state.empty() && state[0] == '/')  // a relative one is to be ignored, the specification says
    return join_path(state, "sluice");
  return home.empty() ? "" : join_path(home, ".local/state/sluice");
}

std::string ollama_registry() {
  const std::string given = variable("SLUICE_OLLAMA_REGISTRY");
  return given.empty() ? "https://registry.ollama.ai" : without_slash(given);
}

std::string hub_endpoint() {
  const std::string given = variable("HF_ENDPOINT");
  return given.empty() ? "https://huggingface.co" : without_slash(given);
}

std::string hub_token() {
  std::string token = variable("HF_TOKEN");
  if (token.empty()) {
    const std::string home = variable("HF_HOME"), cache = variable("XDG_CACHE_HOME"), named = variable("HF_TOKEN_PATH");
    const std::string above = cache.empty() ? join_path(variable("HOME"), ".cache") : cache;
    const std::string folder = home.empty() ? join_path(above, "huggingface") : home;
    const Result<std::string> kept = read_file(named.empty() ? join_path(folder, "token") : named, kMaxTokenBytes);
    if (kept) token = *kept;
  }
  std::erase_if(token, [](unsigned char c) { return c <= ' ' || c >= 0x7f; });
  return token;
}

std::string home_folder() { return variable("HOME"); }

std::string netrc_variable() { return variable("NETRC"); }

std::string webgpu_library_variable() { return variable("SLUICE_WEBGPU_LIBRARY"); }

std::string vulkan_application() { return variable("SLUICE_VULKAN_APPLICATION"); }

std::vector<std::string> vulkan_driver_folders() {
  const auto or_else = [](const std::string& value, const std::string& fallback) {
    return value.empty() ? fallback : value;
  };
  const std::string home = variable("HOME");
  const std::string above = cat(or_else(variable("XDG_CONFIG_HOME"), home + "/.config"), ':',
                                or_else(variable("XDG_CONFIG_DIRS"), "/etc/xdg"),
                                ":/usr/local/etc:/etc:", or_else(variable("XDG_DATA_HOME"), home + "/.local/share"),
                                ':', or_else(variable("XDG_DATA_DIRS"), "/usr/local/share:/usr/share"),
                                ":/run/opengl-driver/share");  // the last is NixOS's
  std::vector<std::string> folders;
  for (const std::string& folder : split(above, ':'))
    if (!folder.empty()) folders.push_back(folder + "/vulkan/icd.d");
  return folders;
}

bool vulkan_drivers_named() {
  for (const char* name : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"})
    if (!variable(name).empty()) return true;
  return false;
}

TerminalVariables terminal_variables() {
  return {.term = variable("TERM"),
          .program = variable("TERM_PROGRAM"),
          .is_kitty = !variable("KITTY_WINDOW_ID").empty(),
          .is_multiplexed = !variable("TMUX").empty() || !variable("STY").empty()};
}

std::vector<TableRow> environment_rows() {
  return {
      {"OLLAMA_MODELS", "Ollama's store; without it ~/.ollama/models, then the store of Ollama's service"},
      {"HF_HUB_CACHE", "the Hugging Face cache"},
      {"HUGGINGFACE_HUB_CACHE", "the same, by its older name"},
      {"HF_HOME", "the folder with hub/ in it"},
      {"XDG_CACHE_HOME", "the folder with huggingface/hub/ in it; without any of these, ~/.cache"},
      {"XDG_STATE_HOME", "where history, digests of models and lists of experts are kept; without it ~/.local/state"},
      {"HOME", "the folder that ~ stands for"},
      {"HF_TOKEN",
       "the token for models of Hugging Face that want one; without it the one in the file that HF_TOKEN_PATH names, "
       "or "
       "in token beside hub/"},
      {"HF_ENDPOINT", "another address than https://huggingface.co for sluice pull"},
      {"SLUICE_OLLAMA_REGISTRY", "another address than https://registry.ollama.ai for sluice pull"},
      {"NETRC", "the file of logins for sluice pull; without it ~/.netrc"},
      {"SLUICE_WEBGPU_LIBRARY", "Dawn's C interface for --device webgpu, as --webgpu-library"},
      {"SLUICE_VULKAN_APPLICATION",
       "the name by which Vulkan's driver is to know sluice with --device webgpu; NVIDIA's chooses settings by it"},
      {"VK_DRIVER_FILES, VK_ICD_FILENAMES", "Vulkan drivers for --device webgpu, as Vulkan's loader takes them"},
      {"TERM, TERM_PROGRAM, KITTY_WINDOW_ID, TMUX, STY", "tell whether the terminal shows pictures (--thumbnails)"},
      {"http_proxy, https_proxy, no_proxy", "for sluice pull, as curl takes them"},
  };
}

std::vector<TableRow> file_rows() {
  return {
      {"~/.local/state/sluice/history", "the lines typed in chats"},
      {"~/.local/state/sluice/models", "digests of models whose states were saved or loaded"},
      {"~/.local/state/sluice/experts/*", "experts that a model larger than memory used most"},
      {"FILE, FILE.state, FILE.media/*",
       "a conversation that /save wrote, its computed state, and the pictures, sounds and films that it shows"},
  };
}

}  // namespace sluice
