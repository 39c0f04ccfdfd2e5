// GPUs for the commands. Dawn's library is found and opened; its own messages are held back.
//
// Whether a GPU may exist is found without opening anything, because Dawn and its drivers take some tenths of a second.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/cli/args.h"
#include "base/result.h"
#include "device/webgpu/webgpu.h"

namespace sluice {

OptionSpec webgpu_library_option();  // --webgpu-library

// `option` is the library of --webgpu-library; "": search for one. `said` gets the output of the library and the
// drivers.
Result<std::unique_ptr<WebGpuDevice>> open_webgpu(const std::string& option, std::string* said = nullptr);

// "discrete", "integrated", "software" or "unknown".
const char* gpu_kind(const webgpu::Adapter& adapter);

// What a user may do about the driver, for people; "": nothing is known. `driver` as adapters describe it.
std::string driver_advice(const std::string& driver);

// The places in which signs of a GPU are sought.
struct GpuSigns {
  struct Node {
    std::string folder, prefix;
  };
  std::vector<Node> nodes{};                  // files that a driver creates in /dev
  std::vector<std::string> driver_folders{};  // of Vulkan's drivers
  bool drivers_named = false;                 // a variable names the drivers instead
};
GpuSigns machine_gpu_signs();
struct GpuAbsence {
  std::string why{};      // "": a GPU may exist
  bool expected = false;  // no surprise: no software is missing
};
GpuAbsence gpu_absence(const GpuSigns& signs);

}  // namespace sluice
