#include "tests/engine/experts/scripted_reads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

class ScriptedReads final : public ReadQueue {
 public:
  ScriptedReads(const std::vector<std::string>& paths, ReadScript& script) : script_(script) {
    for (const std::string& path : paths) files_.push_back(unwrap(Mapping::open(path)));
  }

  std::string description() const override { return "scripted"; }
  uint32_t depth() const override { return script_.depth; }
  bool in_background() const override { return script_.in_background; }

  void begin(const FileRead& read) override {
    EXPECT_EQ(read.offset % kReadAlignment, 0u);
    EXPECT_EQ(read.into.size() % kReadAlignment, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read.into.data()) % kReadAlignment, 0u);
    for (const Pending& other : pending_) EXPECT_FALSE(overlap(other.read.into, read.into)) << "read into twice";
    std::memset(read.into.data(), 0xff, read.into.size());
    pending_.push_back({.read = read, .number = script_.reads++, .turns = draw(script_.turns + 1)});
    script_.most_under_way = std::max<uint64_t>(script_.most_under_way, pending_.size());
    EXPECT_LE(pending_.size(), script_.depth);
  }

  void take_ended(std::vector<ReadEnd>& ended, bool) override {
    if (script_.stalled) return;
    for (size_t i = pending_.size(); i > 1; --i) std::swap(pending_[i - 1], pending_[draw(i)]);
    std::vector<Pending> left;
    for (Pending& one : pending_)
      if (one.turns-- > 0)
        left.push_back(one);
      else
        ended.push_back({.id = one.read.id, .bytes = read(one)});
    pending_ = std::move(left);
  }

 private:
  struct Pending {
    FileRead read{};
    int64_t number = 0;
    uint32_t turns = 0;
  };

  static bool overlap(std::span<std::byte> a, std::span<std::byte> b) {
    return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
  }
  uint32_t draw(uint64_t below) {
    return philox4x32({draws_++, 0, 0, 0}, {script_.seed, 7})[0] % static_cast<uint32_t>(below);
  }
  int64_t read(const Pending& one) {
    if (one.number == script_.failing) return -script_.error_number;
    const std::span<const std::byte> bytes = files_[one.read.file].bytes();
    const uint64_t end = std::min<uint64_t>(bytes.size(), script_.file_bytes);
    if (one.read.offset >= end) return 0;
    uint64_t count = std::min<uint64_t>(one.read.into.size(), end - one.read.offset);
    if (script_.short_reads && draw(4) != 0) count = std::min(count, kReadAlignment + draw(count));
    std::memcpy(one.read.into.data(), bytes.data() + one.read.offset, count);
    return static_cast<int64_t>(count);
  }

  ReadScript& script_;
  std::vector<Mapping> files_;
  std::vector<Pending> pending_;
  uint32_t draws_ = 0;
};

}  // namespace

std::unique_ptr<ReadQueue> make_scripted_reads(const std::vector<std::string>& paths, ReadScript& script) {
  return std::make_unique<ScriptedReads>(paths, script);
}

}  // namespace sluice
