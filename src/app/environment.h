// The one place that reads the environment: where models lie (checkpoint/places.h), and where our own files go.
#pragma once

#include <string>

#include "checkpoint/places.h"

namespace sluice {

Places machine_places();
// XDG_STATE_HOME/sluice, else ~/.local/state/sluice, whether it is there or not; "" when neither is set.
std::string state_folder();

}  // namespace sluice
