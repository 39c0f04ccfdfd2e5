#include "app/environment.h"

#include <cstdlib>

#include "base/file.h"

namespace sluice {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  return value == nullptr ? "" : value;
}

}  // namespace

Places machine_places() {
  Environment environment;
  environment.home = variable("HOME");
  for (const char* name : kPlaceVariables) {
    if (std::string value = variable(name); !value.empty()) {
      environment.variables.emplace(name, std::move(value));
    }
  }
  return find_places(environment);
}

std::string state_folder() {
  const std::string state = variable("XDG_STATE_HOME"), home = variable("HOME");
  if (!state.empty() && state[0] == '/') {  // a relative one is to be ignored, the specification says
    return join_path(state, "sluice");
  }
  return home.empty() ? "" : join_path(home, ".local/state/sluice");
}

std::string webgpu_library_variable() { return variable("SLUICE_WEBGPU_LIBRARY"); }

std::vector<TableRow> environment_rows() {
  return {
      {"OLLAMA_MODELS", "Ollama's store; without it ~/.ollama/models, then that of Ollama's service"},
      {"HF_HUB_CACHE", "the Hugging Face cache"},
      {"HUGGINGFACE_HUB_CACHE", "the same, by its older name"},
      {"HF_HOME", "the folder above it: hub in there"},
      {"XDG_CACHE_HOME", "the folder above that: huggingface/hub in there; without any, ~/.cache"},
      {"XDG_STATE_HOME", "where history, digests of models and lists of experts are kept; without it ~/.local/state"},
      {"HOME", "what ~ stands for here"},
      {"SLUICE_WEBGPU_LIBRARY", "Dawn's C interface for --device webgpu, as --webgpu-library"},
      {"http_proxy, https_proxy, no_proxy", "for sluice pull, as curl takes them"},
  };
}

std::vector<TableRow> file_rows() {
  return {
      {"~/.local/state/sluice/history", "the lines typed in chats"},
      {"~/.local/state/sluice/models", "digests of models whose states were saved or loaded"},
      {"~/.local/state/sluice/experts/*", "which experts a model larger than memory used most"},
      {"FILE and FILE.state", "a conversation that /save wrote, and what is computed of it"},
  };
}

}  // namespace sluice
