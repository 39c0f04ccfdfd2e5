// GPUs as the commands open them: Dawn's library is found, opened without a word of its own, and asked.
//
// Whether a GPU can be here at all is seen without opening anything: Dawn and its drivers take some tenths of a second.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/cli/args.h"
#include "base/result.h"
#include "device/webgpu/webgpu.h"

namespace sluice {

OptionSpec webgpu_library_option();  // --webgpu-library

// On the library of --webgpu-library (`option`, or "": where one is found). `said`: what library and drivers printed.
Result<std::unique_ptr<WebGpuDevice>> open_webgpu(const std::string& option, std::string* said = nullptr);

// "discrete", "integrated", "software" or "unknown".
const char* gpu_kind(const webgpu::Adapter& adapter);

// Where signs of a GPU are looked for.
struct GpuSigns {
  struct Node {
    std::string folder, prefix;
  };
  std::vector<Node> nodes{};                  // what a driver leaves in /dev
  std::vector<std::string> driver_folders{};  // of Vulkan's drivers
  bool drivers_named = false;                 // by a variable, instead of those
};
GpuSigns machine_gpu_signs();
struct GpuAbsence {
  std::string why{};      // "": one may be here
  bool expected = false;  // nobody is surprised: no software is missing
};
GpuAbsence gpu_absence(const GpuSigns& signs);

}  // namespace sluice
