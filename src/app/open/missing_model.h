// The refusal of a model that is not on this machine. It ends with the command that gets one.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice {

// `why`: what find_model() says of `name`.
Error missing_model(const std::string& name, const Error& why);
// Whether `name` may be one of a registry: not a path.
bool can_be_pulled(const std::string& name);

}  // namespace sluice
