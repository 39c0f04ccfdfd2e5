// The page's host of the WebGPU device: every call goes to web/src/engine/gpu_host.ts, which plays it. Nothing waits:
// settle() returns at once, and who uses the device lets the page settle (WebGpuDevice::load).
#pragma once

#include <memory>

#include "device/webgpu/host.h"

namespace sluice::wasm {

// Null: the page has no GPU. Every host opened is that of the page; once the page's has failed, so does open(), until
// the page has opened its GPU again.
Result<std::unique_ptr<webgpu::HostFactory>> page_gpu();

}  // namespace sluice::wasm
