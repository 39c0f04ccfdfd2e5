#include "app/environment.h"

#include <cstdlib>

namespace sluice {

Places machine_places() {
  Environment environment;
  // NOLINTBEGIN(concurrency-mt-unsafe): nothing here sets variables
  if (const char* home = std::getenv("HOME")) {
    environment.home = home;
  }
  for (const char* name : kPlaceVariables) {
    if (const char* value = std::getenv(name)) {
      environment.variables.emplace(name, value);
    }
  }
  // NOLINTEND(concurrency-mt-unsafe)
  return find_places(environment);
}

}  // namespace sluice
