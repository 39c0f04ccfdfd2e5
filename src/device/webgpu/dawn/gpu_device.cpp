#include "device/webgpu/dawn/gpu_device.h"

#include <vector>

#include "base/check.h"
#include "base/text.h"

namespace sluice::webgpu {

GpuDevice::~GpuDevice() {
  if (device == nullptr) return;
  api().release_queue(queue);
  api().release_device(device);
}

Status GpuDevice::open() {
  const Adapter& adapter = connection->described;
  std::vector<uint32_t> features;
  if (adapter.f16) features.push_back(api().features.shader_f16);
  if (adapter.subgroups) features.push_back(api().features.subgroups);
  if (adapter.matrices) features.push_back(*api().features.subgroup_matrix);
  dawn::DeviceDescriptor descriptor{
      .feature_count = features.size(), .features = features.data(), .limits = &connection->limits};
  descriptor.lost = {.callback =
                         [](const dawn::Device*, uint32_t reason, dawn::StringView message, void* self, void*) {
                           auto& gpu = *static_cast<GpuDevice*>(self);
                           gpu.gone = true;
                           if (reason != dawn::kLostByUs)
                             gpu.fail(ErrorKind::io, cat("webgpu: the GPU device was lost (", sentence(message), ")"));
                         },
                     .first = this};
  descriptor.error = {.callback =
                          [](const dawn::Device*, uint32_t type, dawn::StringView message, void* self, void*) {
                            const bool memory = type == dawn::kErrorOutOfMemory;
                            static_cast<GpuDevice*>(self)->fail(memory ? ErrorKind::out_of_memory : ErrorKind::invalid,
                                                                cat("webgpu: ", sentence(message)));
                          },
                      .first = this};
  struct Asked : Flag {
    dawn::Device device = nullptr;
  } asked;
  api().request_device(connection->adapter, &descriptor,
                       {.callback =
                            [](uint32_t status, dawn::Device given, dawn::StringView message, void* to, void*) {
                              static_cast<Asked*>(to)->device = given;
                              raise(*static_cast<Asked*>(to), status, message);
                            },
                        .first = &asked});
  wait_until([&] { return asked.done; });
  if (asked.device == nullptr)
    return error(ErrorKind::io, "webgpu: ", adapter.description, " gives no device (", asked.message, ")");
  device = asked.device;
  queue = api().device_queue(device);
  return {};
}

dawn::Buffer GpuDevice::make_buffer(uint64_t bytes, uint64_t usage) {
  const dawn::BufferDescriptor descriptor{.usage = usage, .bytes = bytes};
  const dawn::Buffer buffer = api().create_buffer(device, &descriptor);
  if (buffer == nullptr) fail(ErrorKind::out_of_memory, cat("webgpu: no buffer of ", bytes, " bytes"));
  return buffer;
}

dawn::Commands GpuDevice::finished(dawn::Encoder encoder) const {
  const dawn::Commands commands = api().finish(encoder, nullptr);
  api().release_encoder(encoder);
  return commands;
}

void GpuDevice::submit(dawn::Commands commands) const {
  if (commands == nullptr) return;
  api().submit(queue, 1, &commands);
  api().release_commands(commands);
}

void GpuDevice::flush() const {
  api().submit(queue, 0, nullptr);
  Flag flag;
  api().work_done(queue, {.callback = [](uint32_t status, dawn::StringView message, void* to,
                                         void*) { raise(*static_cast<Flag*>(to), status, message); },
                          .first = &flag});
  wait_until([&] { return flag.done; });
  CHECK(flag.done);
}

}  // namespace sluice::webgpu
