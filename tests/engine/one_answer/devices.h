// The devices that the one-answer suite compares with themselves. A new device is one entry of the list in devices.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "device/device.h"

namespace sluice {

// Lines of the one-answer list that a device may have no use for. The others every device holds.
enum class Line {
  threads,       // any number of threads
  crowds,        // hundreds of decode rows
  long_prompts,  // attention over parts of a history
  repacking,     // mapped weights, and the same in the device's own layout
};

struct AnswerDevice {
  const char* name = "";  // as --device takes it
  // Null where this machine has none: `absent` says what is missing, and tests skip.
  std::unique_ptr<Device> (*open)(ThreadPool& pool) = nullptr;
  const char* absent = "";
  std::vector<Arithmetic> arithmetics{};
  std::vector<std::pair<Line, const char*>> without{};  // with the reason
  bool slow_steps = false;  // each takes tens of milliseconds where a processor plays the GPU

  bool is_here() const;
  // Why that line is not held here; null where it is.
  const char* reason_against(Line line) const;
};

std::span<const AnswerDevice> answer_devices();

}  // namespace sluice
