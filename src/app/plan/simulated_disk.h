// A disk of a given bandwidth, simulated, for model files that are not on this machine. Reads end one after another,
// when such a disk would have ended them; the bytes are zeros.
#pragma once

#include <chrono>
#include <deque>
#include <set>

#include "base/files/read_queue.h"

namespace sluice {

class SimulatedDisk final : public ReadQueue {
 public:
  explicit SimulatedDisk(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  std::string description() const override { return "as fast as it was said"; }
  uint32_t depth() const override { return 64; }
  void begin(const FileRead& read) override;
  void take_ended(std::vector<ReadEnd>& ended, bool wait) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Reading {
    ReadEnd end{};
    Clock::time_point due{};
  };

  double bytes_per_second_;
  std::deque<Reading> under_way_;
  std::set<const std::byte*> zeros_;  // memory that is filled with zeros already and that nobody changes
};

}  // namespace sluice
