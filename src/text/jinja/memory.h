// The memory that one rendering holds. Everything that a template makes counts from its creation until it is gone.
//
// A Room is a part of a Memory. Each text, list, dict, object and argument has a Room as a member, so its memory is
// returned with it and is never counted twice. A Memory must outlive its Rooms. Neither locks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sluice::jinja {

class Memory {
 public:
  explicit Memory(uint64_t limit) : limit_(limit) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint64_t peak() const { return peak_; }

 private:
  friend class Room;
  uint64_t limit_;
  uint64_t held_ = 0;  // at most limit_
  uint64_t peak_ = 0;
};

class Room {
 public:
  Room() = default;
  Room(Room&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Room& operator=(Room&& other) noexcept {
    if (this != &other) {
      release();
      memory_ = std::exchange(other.memory_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~Room() { release(); }

  // Takes `bytes` more. Returns false and takes none if that exceeds the memory's limit.
  [[nodiscard]] bool grow(Memory& memory, uint64_t bytes) {
    if (bytes > memory.limit_ - memory.held_) return false;
    memory.held_ += bytes;
    memory.peak_ = std::max(memory.peak_, memory.held_);
    memory_ = &memory;
    bytes_ += bytes;
    return true;
  }

  void release() {
    if (memory_ != nullptr) memory_->held_ -= bytes_;
    bytes_ = 0;
  }

 private:
  Memory* memory_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace sluice::jinja
