// The only place that reads the environment: the folders of models (checkpoint/places/places.h), of Sluice's own files,
// and of libraries.
#pragma once

#include <string>
#include <vector>

#include "app/cli/args.h"
#include "checkpoint/places/places.h"

namespace sluice {

Places machine_places();
// XDG_STATE_HOME/sluice, else ~/.local/state/sluice, existing or not; "" when neither variable is set.
std::string state_folder();
// Where names of models are looked up: SLUICE_OLLAMA_REGISTRY, else Ollama's; HF_ENDPOINT, else Hugging Face's.
std::string ollama_registry();
std::string hub_endpoint();
// HF_TOKEN, else the file in which Hugging Face's tools keep one; "": none.
std::string hub_token();
std::string home_folder();              // HOME, or ""
std::string netrc_variable();           // NETRC, or ""
std::string webgpu_library_variable();  // SLUICE_WEBGPU_LIBRARY, or ""
std::string vulkan_application();       // SLUICE_VULKAN_APPLICATION, or ""
// The folders in which Vulkan's loader looks for drivers, and whether a variable names the drivers to take.
std::vector<std::string> vulkan_driver_folders();
bool vulkan_drivers_named();

// What the terminal's variables say.
struct TerminalVariables {
  std::string term = {}, program = {};  // TERM, TERM_PROGRAM
  bool is_kitty = false;                // KITTY_WINDOW_ID is set
  bool is_multiplexed = false;          // TMUX or STY is set
};
TerminalVariables terminal_variables();

// For people: every variable that we or our libraries read, and every file that is not named on the command line.
std::vector<TableRow> environment_rows();
std::vector<TableRow> file_rows();

}  // namespace sluice
