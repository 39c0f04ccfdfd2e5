// A progress line on standard error for work of more than a second. A terminal shows it in place, other outputs get a
// line every few seconds. A separate thread looks at the clock, because loading a model does not report back.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "app/cli/console.h"

namespace sluice {

// What long work tells: how far it is.
class ShownProgress {
 public:
  virtual ~ShownProgress() = default;
  virtual void update(uint64_t done, uint64_t total) = 0;
};

class ProgressLine final : public ShownProgress {
 public:
  // "loading model.gguf"; `unit` is what update() counts: "tokens", or "bytes", which are shown as MB and GB.
  ProgressLine(Console& console, std::string doing, std::string unit = "");
  ~ProgressLine() override { finish(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(uint64_t done, uint64_t total) override;
  void finish();  // clears the line; nothing is shown afterwards

 private:
  void watch();
  void show(double seconds);

  Console* console_;
  const std::string doing_, unit_;
  std::atomic<uint64_t> done_ = 0, total_ = 0;
  bool shown_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool finished_ = false;
  std::thread watcher_;
};

}  // namespace sluice
