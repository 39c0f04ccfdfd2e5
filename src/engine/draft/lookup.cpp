#include "engine/draft/lookup.h"

#include <algorithm>
#include <bit>

namespace sluice {
namespace {

constexpr uint32_t kLeastMatch = 2, kLongestMatch = 16, kPlaces = 64;
constexpr size_t kLeastBuckets = 1024;

// How many tokens before `a` equal those before `b`, a < b; at most kLongestMatch.
uint32_t match(const History& history, size_t a, size_t b) {
  uint32_t length = 0;
  while (length < std::min<size_t>(a, kLongestMatch) && history[a - 1 - length].token == history[b - 1 - length].token)
    ++length;
  return length;
}

// Of the two tokens before `end`. Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
size_t bucket(const History& history, size_t end, size_t buckets) {
  const auto two =
      uint64_t{static_cast<uint32_t>(history[end - 2].token)} << 32 | static_cast<uint32_t>(history[end - 1].token);
  return static_cast<size_t>((two * 0x9E3779B97F4A7C15u) >> (64 - std::countr_zero(buckets)));
}

}  // namespace

void Lookup::add(const History& history, uint32_t end) {
  uint32_t& latest = latest_[bucket(history, end, latest_.size())];
  before_[end] = latest;
  latest = end;
}

void Lookup::add_all_before(const History& history, uint32_t end) {
  auto known = static_cast<uint32_t>(std::max<size_t>(before_.size(), kLeastMatch));
  if (end > latest_.size() || end < known) {
    latest_.assign(std::max(kLeastBuckets, 2 * std::bit_ceil(size_t{end})), 0);
    before_.clear();
    known = kLeastMatch;
  }
  before_.resize(std::max(end, known), 0);
  for (; known < end; ++known) add(history, known);
}

Lookup::Found Lookup::find(const History& history) {
  const auto size = static_cast<uint32_t>(history.size());
  Found found;
  if (size <= kLeastMatch) return found;
  add_all_before(history, size);
  uint32_t place = latest_[bucket(history, size, latest_.size())];
  for (uint32_t places = 0; place != 0 && places < kPlaces && found.match < kLongestMatch; ++places) {
    const uint32_t length = match(history, place, size);
    if (length >= kLeastMatch && length > found.match) found = {.next = place, .match = length};
    place = before_[place];
  }
  return found;
}

std::vector<int32_t> tokens_behind(const History& history, const Lookup::Found& found, uint32_t most) {
  std::vector<int32_t> tokens;
  if (found.match == 0) return tokens;
  tokens.reserve(most);
  for (size_t i = found.next; tokens.size() < most; ++i) {
    if (i < history.size() && history[i].is_media()) break;
    tokens.push_back(i < history.size() ? history[i].token : tokens[i - history.size()]);
  }
  return tokens;
}

}  // namespace sluice
