// A kernel that copies a buffer many times, for what a GPU's memory gives: reading and writing together.
#pragma once

#include "device/webgpu/host.h"

namespace sluice::webgpu {

class Copying {
 public:
  explicit Copying(Host& host);  // outlives it; two buffers of at most 512 MB are made
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;
  ~Copying();

  // To be submitted when the host has settled; the first time the GPU may have more to do than copy.
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
