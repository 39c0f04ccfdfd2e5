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

}  // namespace sluice
