// The WebGPU device: kernels in WGSL and a command stream made in C++, which a host plays (host.h).
//
//   kernel.h         the text of a kernel        layout.h   memory on the GPU
//   weight_format.h  weights on the GPU          emitter.h  an op's dispatches (kernels/ops_*.cpp)
//   plan_objects.h   buffers, pipelines          runner.h   a step
//
// exact computes in f32 throughout, with our own elementary functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace sluice {

namespace webgpu {
class HostFactory;
struct Adapter;
}  // namespace webgpu

struct WebGpuOptions {
  std::vector<std::string> libraries{};  // paths of Dawn's C interface, in the order of trying
  // The name by which Vulkan's driver is to know the program, which may choose settings by it; "": none. A part of the
  // numerics id, as the driver is.
  std::string vulkan_application{};
};
// Natively place() uploads all weights. In a page place() begins and load() continues, and the page waits for its host
// to settle. A step that starts before load() has uploaded all of its weights uploads the others first, while it is
// polled: a tower's, which is placed in the middle of an answer.
class WebGpuDevice : public Device {
 public:
  struct Loaded {
    uint64_t bytes = 0, of = 0;  // on the GPU
  };
  // Uploads roughly the next `bytes` of all weights that were placed.
  virtual Result<Loaded> load(uint64_t bytes) = 0;
  virtual const webgpu::Adapter& adapter() const = 0;
};
// A device on Dawn's C interface. Fails with not_found if no library can be opened.
Result<std::unique_ptr<WebGpuDevice>> make_webgpu_device(const WebGpuOptions& options);
std::unique_ptr<WebGpuDevice> make_webgpu_device(std::unique_ptr<webgpu::HostFactory> factory);

}  // namespace sluice
