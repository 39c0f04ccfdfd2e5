#include "engine/admission.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice {
namespace {

constexpr PageGroup kWindowed{.window = 100};

// What a sequence of that group holds at most while 64 rows are computed, wherever they begin.
uint32_t most_pages() {
  uint32_t most = 0;
  for (uint32_t at = 1; at <= 6 * kCut; ++at) {
    const uint32_t pages[] = {100};
    Cache cache({kWindowed}, pages, false);
    CachedHistory text = cache.empty();
    std::vector<PageCopy> copies;
    EXPECT_TRUE(cache.provide(text, at, 1, copies));
    cache.advance(text, at, {});
    EXPECT_TRUE(cache.provide(text, at + kCut, 1, copies));
    most = std::max(most, text.tables[0].end() - text.tables[0].first());
  }
  return most;
}

// A request waits behind one that runs, of whose pages `free` are not held.
bool request_starts(uint32_t free) {
  constexpr uint32_t kHeld = 3;
  const uint32_t pages[] = {kHeld + free};
  Cache cache({kWindowed}, pages, false);
  Board board;
  for (const SequenceId id : {1u, 2u}) {
    board.sequences[id].text = cache.empty();
    board.sequences[id].request = id;
    board.sequences[id].text.history.resize(1000);
    board.jobs[id].id = id;
    board.jobs[id].sequence = id;
  }
  board.jobs[1].state = Job::State::running;
  std::vector<PageCopy> copies;
  EXPECT_TRUE(cache.provide(board.sequences[1].text, kHeld * kPagePositions, 1, copies));
  Admission(cache, board, 2).admit();
  return board.jobs[2].state == Job::State::running;
}

// With one page less it would begin, run short, and be computed again.
TEST(Admission, ARequestStartsWhenItsWindowFits) {
  const uint32_t most = most_pages();
  EXPECT_EQ(most, 4u);
  EXPECT_FALSE(request_starts(most - 1));
  EXPECT_TRUE(request_starts(most));
}

}  // namespace
}  // namespace sluice
