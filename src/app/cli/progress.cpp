#include "app/cli/progress.h"

#include <chrono>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kQuiet{1000};  // shorter work shows nothing
constexpr milliseconds kTerminalInterval{200};
constexpr milliseconds kPlainInterval{5000};  // a log should stay readable

std::string amount(uint64_t value, const std::string& unit) {
  return unit == "bytes" ? format_bytes(value) : cat(value);
}

}  // namespace

ProgressLine::ProgressLine(Console& console, std::string doing, std::string unit)
    : console_(&console), doing_(std::move(doing)), unit_(std::move(unit)), watcher_([this] { watch(); }) {}

void ProgressLine::update(uint64_t done, uint64_t total) {
  done_ = done;
  total_ = total;
}

void ProgressLine::watch() {
  const auto began = Clock::now();
  const auto interval = console_->err_is_terminal() ? kTerminalInterval : kPlainInterval;
  auto next = began + kQuiet;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_until(lock, next, [this] { return finished_; })) {
    show(std::chrono::duration<double>(Clock::now() - began).count());
    next += interval;
  }
}

void ProgressLine::show(double seconds) {
  std::string line = cat(doing_, "  ");
  if (const uint64_t total = total_; total > 0) {
    const uint64_t done = done_;
    line += cat(amount(done, unit_), " of ", amount(total, unit_), unit_ == "bytes" || unit_.empty() ? "" : " ",
                unit_ == "bytes" ? "" : unit_, ", ", 100 * done / total, " %, ");
  }
  line += cat(static_cast<int64_t>(seconds), " s");
  console_->err(console_->err_is_terminal() ? cat(kClearLine, line) : line + "\n");
  shown_ = true;
}

void ProgressLine::finish() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  wake_.notify_one();
  watcher_.join();
  if (shown_ && console_->err_is_terminal()) console_->err(kClearLine);
}

}  // namespace sluice
