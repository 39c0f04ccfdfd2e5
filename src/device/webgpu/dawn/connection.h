// The connection to Dawn: an instance, its adapter with its limits, and waiting for callbacks.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "device/webgpu/dawn/dawn.h"
#include "device/webgpu/dawn/vulkan_name.h"
#include "device/webgpu/host.h"

namespace sluice::webgpu {

// A message from Dawn on one line, without its final stop. Dawn's messages have several lines, with the text of a
// kernel.
std::string sentence(dawn::StringView message);

// The result that an awaited callback writes.
struct Flag {
  bool done = false;
  uint32_t status = 0;
  std::string message{};
};
void raise(Flag& flag, uint32_t status, dawn::StringView message);

// The instance and adapter that hosts share.
struct Connection {
  explicit Connection(std::shared_ptr<const dawn::Library> opened) : library(std::move(opened)) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();
  std::shared_ptr<const dawn::Library> library;
  std::unique_ptr<const NamedInstance> named{};  // where the program has another name
  dawn::Instance instance = nullptr;
  dawn::Adapter adapter = nullptr;
  dawn::Limits limits{};
  Adapter described{};

  // Lets callbacks run until `holds`, for at most two minutes; whether it holds.
  template <class Condition>
  bool wait_until(Condition&& holds) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!holds()) {
      library->process_events(instance);
      if (holds()) return true;
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

// With the first library of `paths` that can be opened, which must be the release that dawn.h declares. not_found: none
// can be opened. `application` names the program to Vulkan's driver; "": it has no name.
Result<std::shared_ptr<Connection>> connect(const std::vector<std::string>& paths, const std::string& application);

}  // namespace sluice::webgpu
