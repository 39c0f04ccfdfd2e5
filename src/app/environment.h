// The one place that reads the environment for where models lie (checkpoint/places.h).
#pragma once

#include "checkpoint/places.h"

namespace sluice {

Places machine_places();

}  // namespace sluice
