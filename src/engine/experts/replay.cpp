#include "engine/experts/replay.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.h"

namespace sluice {
namespace {

// Knows the future.
class Clairvoyant final : public Replacement {
 public:
  explicit Clairvoyant(const RoutingTrace& trace) : trace_(trace), next_(size_t{trace.layers} * trace.experts, kNever) {
    later_.resize(trace.chosen.size());
    for (size_t at = trace.chosen.size(); at-- > 0;) {
      size_t& next = next_of(at);
      later_[at] = next;
      next = at;
    }
  }
  void use(uint32_t /*layer*/, std::span<const uint32_t> experts) override {
    for (size_t i = 0; i < experts.size(); ++i, ++at_) next_of(at_) = later_[at_];
  }
  double worth(uint32_t layer, uint32_t expert) const override {
    return -static_cast<double>(next_[size_t{layer} * trace_.experts + expert]);
  }

 private:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();
  size_t& next_of(size_t at) {
    const size_t layer = at / trace_.used % trace_.layers;
    return next_[layer * trace_.experts + trace_.chosen[at]];
  }

  const RoutingTrace& trace_;
  std::vector<size_t> next_;   // use of an expert, as an index into the trace
  std::vector<size_t> later_;  // the use of the same expert that follows a use
  size_t at_ = 0;
};

class Slots {
 public:
  Slots(const RoutingTrace& trace, uint32_t slots) : experts_(trace.experts), most_(slots) {
    slot_of_.assign(size_t{trace.layers} * trace.experts, kNowhere);
    held_.reserve(slots);
  }

  // Whether it was there; it is now. Experts of the set that is used now stay.
  bool use(uint32_t layer, uint32_t expert, uint64_t set, const Replacement& replacement) {
    const Held wanted{layer, expert, set};
    size_t& slot = slot_of_[key(wanted)];
    if (slot != kNowhere) {
      held_[slot].set = set;
      return true;
    }
    if (held_.size() < most_) {
      slot = held_.size();
      held_.push_back(wanted);
      return false;
    }
    slot = victim(set, replacement);
    slot_of_[key(held_[slot])] = kNowhere;
    held_[slot] = wanted;
    return false;
  }
  // So that no expert of the set is taken for another one.
  void pin(uint32_t layer, uint32_t expert, uint64_t set) {
    if (const size_t slot = slot_of_[key({layer, expert, set})]; slot != kNowhere) held_[slot].set = set;
  }

 private:
  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
  struct Held {
    uint32_t layer = 0, expert = 0;
    uint64_t set = 0;  // the last that used it
  };
  size_t key(const Held& held) const { return size_t{held.layer} * experts_ + held.expert; }
  size_t victim(uint64_t set, const Replacement& replacement) const {
    size_t found = kNowhere;
    double least = std::numeric_limits<double>::infinity();
    for (size_t slot = 0; slot < held_.size(); ++slot) {
      if (held_[slot].set == set) continue;
      const double worth = replacement.worth(held_[slot].layer, held_[slot].expert);
      if (found != kNowhere && worth >= least) continue;
      found = slot;
      least = worth;
    }
    CHECK(found != kNowhere);
    return found;
  }

  uint32_t experts_;
  size_t most_;
  std::vector<Held> held_;
  std::vector<size_t> slot_of_;  // by layer and expert
};

}  // namespace

Replay replay(const RoutingTrace& trace, uint32_t slots, Replacement& replacement, size_t uncounted) {
  CHECK(slots >= trace.used);
  Slots held(trace, slots);
  Replay result;
  uint64_t set = 0;
  for (size_t token = 0; token < trace.tokens(); ++token) {
    for (uint32_t layer = 0; layer < trace.layers; ++layer) {
      const std::span<const uint32_t> chosen = trace.at(token, layer);
      replacement.use(layer, chosen);
      ++set;
      for (const uint32_t expert : chosen) held.pin(layer, expert, set);
      for (const uint32_t expert : chosen) {
        const bool hit = held.use(layer, expert, set, replacement);
        if (token < uncounted) continue;
        ++result.uses;
        if (hit) ++result.hits;
      }
    }
  }
  return result;
}

Replay replay_best(const RoutingTrace& trace, uint32_t slots, size_t uncounted) {
  Clairvoyant clairvoyant(trace);
  return replay(trace, slots, clairvoyant, uncounted);
}

}  // namespace sluice
