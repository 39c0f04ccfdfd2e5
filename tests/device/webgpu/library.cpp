#include "library.h"

#include <cstdlib>
#include <filesystem>

#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/webgpu.h"

namespace sluice {
namespace {

constexpr const char* kFetched = "build/webgpu";

class Shared final : public Device {
 public:
  explicit Shared(Device& device) : device_(device) {}
  DeviceInfo info() const override { return device_.info(); }
  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override { return device_.plan(request); }
  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    return device_.place(std::move(plan), weights, budget);
  }

 private:
  Device& device_;
};

// The file, and with it lavapipe where the environment names no other driver.
std::string find_library() {
  if (const char* named = std::getenv("SLUICE_WEBGPU_LIBRARY"); named != nullptr) return named;
  const std::filesystem::path folder(kFetched);
  if (!std::filesystem::exists(folder / "libwebgpu_wrapper.so")) return "";
  if (std::filesystem::exists(folder / "lvp_icd.json"))
    setenv("VK_ICD_FILENAMES", std::filesystem::absolute(folder / "lvp_icd.json").c_str(), 0);
  return std::filesystem::absolute(folder / "libwebgpu_wrapper.so");
}

std::unique_ptr<Device> open_device() {
  if (find_library().empty()) return nullptr;
  Result<std::unique_ptr<WebGpuDevice>> device = make_webgpu_device({.libraries = {find_library()}});
  return device ? *std::move(device) : nullptr;
}

}  // namespace

Device* webgpu_test_device() {
  static const std::unique_ptr<Device> device = open_device();
  return device.get();
}

std::string webgpu_test_library() { return webgpu_test_device() == nullptr ? "" : find_library(); }

bool webgpu_test_library_is_here() { return !find_library().empty(); }

bool webgpu_test_has_matrices() {
  if (webgpu_test_device() == nullptr) return false;
  static const bool has = [] {
    const Result<std::unique_ptr<webgpu::HostFactory>> factory = webgpu::find_dawn({find_library()});
    return factory && (*factory)->adapter().matrices;
  }();
  return has;
}

std::unique_ptr<Device> shared_webgpu_device() {
  Device* device = webgpu_test_device();
  return device == nullptr ? nullptr : std::make_unique<Shared>(*device);
}

}  // namespace sluice
