// An open-addressed hash map with 64-bit keys. It is filled once and then only read. The key ~0 is not allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

template <class Value>
class FlatMap {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  explicit FlatMap(size_t most = 0) {
    size_t slots = 16;
    while (slots < most * 2) slots *= 2;
    slots_.assign(slots, {kNone, Value{}});
  }
  // Replaces an earlier value. There may be no more keys than the constructor was told.
  void set(uint64_t key, Value value) { slots_[slot_of(key)] = {key, value}; }
  const Value* find(uint64_t key) const {
    const auto& slot = slots_[slot_of(key)];
    return slot.first == kNone ? nullptr : &slot.second;
  }

 private:
  size_t slot_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    const uint64_t mixed = key * 0x9e3779b97f4a7c15ull;
    auto slot = static_cast<size_t>(mixed ^ (mixed >> 32)) & mask;
    while (slots_[slot].first != kNone && slots_[slot].first != key) slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<std::pair<uint64_t, Value>> slots_;
};

}  // namespace sluice
