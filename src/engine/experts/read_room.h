// Host memory for experts on their way to a device whose slots lie elsewhere. Each run holds the bytes read from files
// past the page cache, and behind them their packed form.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/files/read_queue.h"
#include "base/result.h"

namespace sluice {

class ReadRoom {
 public:
  // Reserves the memory: at most kMostBytes, but always two runs, and no more runs than slots. `read_bytes` must be a
  // multiple of kReadAlignment.
  static Result<ReadRoom> take(uint64_t read_bytes, uint64_t packed_bytes, uint32_t slots, Budget& budget) {
    ReadRoom room;
    room.read_bytes_ = read_bytes;
    room.run_bytes_ = read_bytes + (packed_bytes + kReadAlignment - 1) / kReadAlignment * kReadAlignment;
    const uint64_t most = std::max<uint64_t>(kMostBytes / room.run_bytes_, 2);
    const auto runs = static_cast<uint32_t>(std::min<uint64_t>(most, slots));
    const uint64_t bytes = runs * room.run_bytes_;
    TRY(room.reservation_, budget.reserve(Domain::host, Purpose::staging, bytes));
    room.memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kReadAlignment, static_cast<size_t>(bytes))));
    if (room.memory_ == nullptr)
      return error(ErrorKind::out_of_memory, "experts: found too little memory to read them: want ", bytes, " bytes");
    for (uint32_t run = runs; run-- > 0;) room.free_.push_back(run);
    return room;
  }

  bool full() const { return free_.empty(); }
  uint32_t take_run() {
    const uint32_t run = free_.back();
    free_.pop_back();
    return run;
  }
  void give_back(uint32_t run) { free_.push_back(run); }
  std::span<std::byte> read(uint32_t run) const {
    return {memory_.get() + run * run_bytes_, static_cast<size_t>(read_bytes_)};
  }
  std::span<std::byte> packed(uint32_t run) const {
    return {memory_.get() + run * run_bytes_ + read_bytes_, static_cast<size_t>(run_bytes_ - read_bytes_)};
  }

 private:
  static constexpr uint64_t kMostBytes = uint64_t{128} << 20;
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };

  Reservation reservation_;
  std::unique_ptr<std::byte, Free> memory_;
  uint64_t read_bytes_ = 0, run_bytes_ = 0;
  std::vector<uint32_t> free_;
};

}  // namespace sluice
