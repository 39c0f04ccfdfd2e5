#include "app/open/gpu.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "app/cli/environment.h"
#include "app/open/held_errors.h"
#include "base/files/file.h"
#include "base/text.h"
#include "device/webgpu/host.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libwebgpu_wrapper.so";
constexpr const char* kPackage = "bun-webgpu-linux-x64@0.1.7";

fs::path program_folder() {
  std::error_code failed;
  return fs::read_symlink("/proc/self/exe", failed).parent_path();
}

// Where make install puts it; beside a program that lies in no bin/.
fs::path own_place() {
  const fs::path folder = program_folder();
  return folder.filename() == "bin" ? folder.parent_path() / "lib" / "sluice" : folder;
}

// The paths of the library, in the order in which they are tried. A named library is the only one; otherwise: beside
// the program, in the folder of an installation, in the build folder, and where the system searches.
std::vector<std::string> libraries(const std::string& option) {
  if (!option.empty()) return {option};
  if (std::string named = webgpu_library_variable(); !named.empty()) return {std::move(named)};
  const fs::path folder = program_folder();
  std::vector<std::string> found;
  for (const auto& place : {folder, folder.parent_path() / "lib" / "sluice", folder.parent_path() / "webgpu"})
    if (std::string file = (place / kLibrary).string(); path_kind(file) == PathKind::file)
      found.push_back(std::move(file));
  found.emplace_back(kLibrary);
  return found;
}

bool any_entry(const std::string& folder, const std::string& prefix, const std::string& suffix) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (starts_with(name, prefix) && ends_with(name, suffix)) return true;
  }
  return false;
}

}  // namespace

OptionSpec webgpu_library_option() {
  return {.name = "--webgpu-library",
          .argument = "FILE",
          .kind = OptionKind::text,
          .help =
              "Dawn's C interface for webgpu: libwebgpu_wrapper.so of npm's bun-webgpu-linux-x64 0.1.7, which make "
              "build fetches; without it, SLUICE_WEBGPU_LIBRARY, or where one is found"};
}

Result<std::unique_ptr<WebGpuDevice>> open_webgpu(const std::string& option, std::string* said) {
  const std::vector<std::string> paths = libraries(option);
  HeldErrors held;
  Result<std::unique_ptr<WebGpuDevice>> device =
      make_webgpu_device({.libraries = paths, .vulkan_application = vulkan_application()});
  std::string printed = held.release();
  if (said != nullptr) *said = std::move(printed);
  if (!device && device.error().kind == ErrorKind::not_found && paths.front() == kLibrary)
    return error(ErrorKind::not_found, "webgpu: found no ", kLibrary,
                 ": want make build in the source tree, which fetches it, or that of npm install ", kPackage, " in ",
                 own_place().string(), ", or --webgpu-library FILE");
  return device;
}

const char* gpu_kind(const webgpu::Adapter& adapter) {
  if (adapter.is_software) return "software";
  if (!adapter.is_gpu) return "unknown";
  return adapter.shares_memory ? "integrated" : "discrete";
}

// NVIDIA's own driver, not Mesa's for the same GPUs, and not by a name already.
std::string driver_advice(const std::string& driver) {
  if (!starts_with(driver, "NVIDIA") || !vulkan_application().empty()) return {};
  return "SLUICE_VULKAN_APPLICATION=ggml-vulkan asks this driver for settings that may be faster";
}

GpuSigns machine_gpu_signs() {
  return {.nodes = {{"/dev/dri", "renderD"}, {"/dev", "nvidia"}, {"/dev", "dxg"}},
          .driver_folders = vulkan_driver_folders(),
          .drivers_named = vulkan_drivers_named()};
}

GpuAbsence gpu_absence(const GpuSigns& signs) {
  const bool node =
      std::ranges::any_of(signs.nodes, [](const GpuSigns::Node& one) { return any_entry(one.folder, one.prefix, ""); });
  if (!node && !signs.drivers_named) return {.why = "this machine shows no GPU", .expected = true};
  const bool driver = std::ranges::any_of(signs.driver_folders,
                                          [](const std::string& folder) { return any_entry(folder, "", ".json"); });
  if (!driver && !signs.drivers_named) return {.why = "there is no Vulkan driver"};
  return {};
}

}  // namespace sluice
