// Uploads to a GPU's buffers. Bytes are copied to memory that the GPU reads; at most about 64 MB of it are in use at
// once. Large uploads go through relays, mapped buffers that are reused, and what follows one shares its relay. Dawn's
// own memory for an upload is filled at 3 GB/s on an H200, a relay at 18.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/webgpu/dawn/copies.h"
#include "device/webgpu/dawn/gpu_device.h"

namespace sluice::webgpu {

class Uploads {
 public:
  Uploads(GpuDevice& gpu, Copies& copies) : gpu_(gpu), copies_(copies) {}
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;
  ~Uploads();  // none is under way

  // In the order of the calls. Offset and size are multiples of 4.
  void add(dawn::Buffer to, uint64_t offset, std::span<const std::byte> bytes);
  // Submits what was added. To be called before anything else is submitted, and before a target is dropped.
  void send();
  // Somebody has waited for the queue behind the last add().
  void note_arrived() { in_flight_ = 0; }
  // Whether a relay is not yet mapped again.
  bool under_way() const;

 private:
  // Mapped while the host writes to it, else on its way.
  struct Relay {
    Uploads* uploads = nullptr;
    dawn::Buffer buffer = nullptr;
    std::byte* memory = nullptr;  // null: it is not mapped
    bool under_way = false;
  };
  // The relay that is being filled.
  struct Filled {
    Relay* relay = nullptr;  // null: none
    dawn::Encoder encoder = nullptr;
    uint64_t bytes = 0;
  };
  Relay* mapped_relay();
  Relay* take_relay();

  GpuDevice& gpu_;
  Copies& copies_;
  std::vector<std::unique_ptr<Relay>> relays_;
  Filled filled_;
  uint64_t in_flight_ = 0;  // bytes without a relay
};

}  // namespace sluice::webgpu
