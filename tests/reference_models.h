// The folder of the full set of reference models, which tests run on where it is at hand.
#pragma once

#include <cstdlib>
#include <string>

namespace sluice {

// What SLUICE_REFERENCE_MODELS names; "" where it is not set, or set to nothing.
inline std::string reference_models() {
  const char* const folder = std::getenv("SLUICE_REFERENCE_MODELS");
  return folder == nullptr ? std::string() : std::string(folder);
}

}  // namespace sluice
