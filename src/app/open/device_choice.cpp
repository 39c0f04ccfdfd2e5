#include "app/open/device_choice.h"

#include "base/text.h"

namespace sluice {
namespace {

struct Hindrance {
  std::string why{};  // "": there is none
  bool plain = false;
};

Hindrance hindrance(const GpuCandidate& gpu, uint64_t model_bytes) {
  if (!gpu.absent.empty()) return {gpu.absent, gpu.expected};
  if (model_bytes < kLeastGpuModel)
    return {cat("a model of ", format_bytes(model_bytes), " is done sooner by the processor"), true};
  const Result<GpuCandidate::Opened> opened = gpu.open();
  if (!opened) return {opened.error().text};
  if (opened->is_software) return {cat(opened->description, " is played by the processor")};
  if (!opened->is_gpu) return {cat(opened->description, " does not say what kind of GPU it is")};
  if (const Status fits = gpu.fits(); !fits) return {fits.error().text};
  if (const Status proven = gpu.proven(); !proven) return {proven.error().text};
  return {};
}

}  // namespace

DeviceChoice choose_device(std::span<const GpuCandidate> gpus, uint64_t model_bytes) {
  DeviceChoice choice{.name = "cpu", .plain = true};
  for (const GpuCandidate& gpu : gpus) {
    const auto [why, plain] = hindrance(gpu, model_bytes);
    if (why.empty()) return {.name = gpu.name};
    // Errors of a device begin with its name.
    const bool named = starts_with(why, gpu.name + ": ");
    choice.why += cat(choice.why.empty() ? "" : "; ", named ? "" : gpu.name + ": ", why);
    choice.plain = choice.plain && plain;
  }
  return choice;
}

}  // namespace sluice
