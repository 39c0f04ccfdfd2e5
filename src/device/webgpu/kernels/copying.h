// A kernel that copies a buffer many times, to measure the bandwidth of a GPU's memory, reads and writes together.
#pragma once

#include "device/webgpu/host.h"

namespace sluice::webgpu {

class Copying {
 public:
  explicit Copying(Host& host);  // the host must outlive it; makes two buffers of at most 512 MB
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;
  ~Copying();

  // Submit it when the host has settled. The first time may take longer, because the GPU may have other work.
  const CommandStream& commands() const { return commands_; }
  uint64_t bytes() const { return 2 * copies_ * bytes_; }  // that they read and write

 private:
  Host& host_;
  uint64_t bytes_ = 0, copies_ = 0;
  BufferId to_ = 0, source_ = 0, uniforms_ = 0;
  BindingId binding_ = 0;
  CommandStream commands_;
};

}  // namespace sluice::webgpu
