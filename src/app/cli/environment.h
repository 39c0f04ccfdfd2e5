// The one place that reads the environment: where models lie (checkpoint/places/places.h), where our own files go, and
// where a library is.
#pragma once

#include <string>
#include <vector>

#include "app/cli/args.h"
#include "checkpoint/places/places.h"

namespace sluice {

Places machine_places();
// XDG_STATE_HOME/sluice, else ~/.local/state/sluice, whether it is there or not; "" when neither is set.
std::string state_folder();
std::string webgpu_library_variable();  // SLUICE_WEBGPU_LIBRARY, or ""
// Where Vulkan's loader looks for drivers, and whether a variable names those that it is to take.
std::vector<std::string> vulkan_driver_folders();
bool vulkan_drivers_named();

// For people: every variable that is read, by us or by the libraries under us, and every file that is not named on the
// command line.
std::vector<TableRow> environment_rows();
std::vector<TableRow> file_rows();

}  // namespace sluice
