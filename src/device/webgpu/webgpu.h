// The WebGPU device: kernels in WGSL and a command stream made in C++ (emitter.h), which a host plays (host.h).
//
//   kernel.h         what a kernel is            layout.h   where everything lies
//   weight_format.h  weights on the GPU          emitter.h  an op's dispatches (ops_*.cpp)
//   placed.h         buffers, pipelines          runner.h   a step
//
// exact is f32 throughout, with elementary functions of our own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace sluice {

namespace webgpu {
class HostFactory;
}

struct WebGpuOptions {
  std::vector<std::string> libraries{};  // paths of Dawn's C interface, in the order in which they are tried
};
Result<std::unique_ptr<Device>> make_webgpu_device(const WebGpuOptions& options);
std::unique_ptr<Device> make_webgpu_device(std::unique_ptr<webgpu::HostFactory> factory);

}  // namespace sluice
