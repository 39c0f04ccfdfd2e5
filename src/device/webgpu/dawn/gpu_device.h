// The GPU device of one host, opened on a connection's adapter, and its failure. The host's parts (pipelines.h,
// uploads.h, commands.h) share it; it outlives them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "device/webgpu/dawn/connection.h"

namespace sluice::webgpu {

struct GpuDevice {
  explicit GpuDevice(std::shared_ptr<Connection> to) : connection(std::move(to)) {}
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;
  ~GpuDevice();
  Status open();

  const dawn::Library& api() const { return *connection->library; }
  template <class Condition>
  bool wait_until(Condition&& holds) const {
    return connection->wait_until(holds);
  }
  // The first failure stays.
  void fail(ErrorKind kind, const std::string& text) {
    if (!failure) failure = error(kind, text);
  }
  // Null after a failure, which it notes.
  dawn::Buffer make_buffer(uint64_t bytes, uint64_t usage);
  // The encoder becomes a command buffer; null after an error, which goes to `failure`.
  dawn::Commands finished(dawn::Encoder encoder) const;
  // Hands over a command buffer, if there is one.
  void submit(dawn::Commands commands) const;
  // Waits until everything that was handed over before is done.
  void flush() const;

  std::shared_ptr<Connection> connection;
  dawn::Device device = nullptr;  // null: not open
  dawn::Queue queue = nullptr;
  bool gone = false;  // the lost callback has been called
  std::optional<Error> failure{};
};

}  // namespace sluice::webgpu
