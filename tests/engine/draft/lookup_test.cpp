#include "engine/draft/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> looked_up(const History& history, uint32_t most) {
  Lookup lookup;
  return tokens_behind(history, lookup.find(history), most);
}

TEST(Lookup, FollowsTheLongestAndThenTheLatestMatch) {
  EXPECT_THAT(looked_up(history_of({1, 2, 3, 4, 5, 9, 2, 3, 7, 8, 1, 2, 3}), 3), ElementsAre(4, 5, 9)) << "longest";
  EXPECT_THAT(looked_up(history_of({1, 2, 3, 4, 1, 2, 5, 6, 1, 2}), 2), ElementsAre(5, 6)) << "latest";
  EXPECT_THAT(looked_up(history_of({1, 2, 3, 4, 2}), 3), IsEmpty()) << "one token is no match";
  EXPECT_THAT(looked_up(history_of({}), 3), IsEmpty());
  EXPECT_THAT(looked_up(history_of({7, 7}), 3), IsEmpty());
}

TEST(Lookup, ATextThatRepeatsItselfGoesOn) {
  EXPECT_THAT(looked_up(history_of({7, 7, 7}), 4), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(looked_up(history_of({1, 2, 3, 1, 2, 3, 1, 2}), 5), ElementsAre(3, 1, 2, 3, 1));
}

TEST(Lookup, EndsBeforeAPicture) {
  History history = history_of({1, 2, 3, 4, 1, 2});
  history[3].media.content[0] = 1;
  EXPECT_THAT(looked_up(history, 3), ElementsAre(3));
}

// Against comparing with every place, over texts of a few words, so that most places have few others like them.
TEST(Lookup, OfAGrowingTextFindsWhatASearchOfAllFinds) {
  Lookup lookup;
  History history;
  for (uint32_t i = 0; i < 4000; ++i) {
    const uint32_t drawn = philox4x32({i, 0, 0, 0}, {1, 0})[0];
    history.push_back({static_cast<int32_t>(drawn % 60), TokenClass::decode});
    size_t next = 0;
    uint32_t longest = 1;
    for (size_t end = history.size() - 1; end >= 2; --end) {
      uint32_t match = 0;
      while (match < std::min<size_t>(end, 16) &&
             history[end - 1 - match].token == history[history.size() - 1 - match].token)
        ++match;
      if (match <= longest) continue;
      longest = match;
      next = end;
    }
    const Lookup::Found found = lookup.find(history);
    ASSERT_EQ(found.match, next == 0 ? 0 : longest) << i;
    if (next != 0) ASSERT_EQ(found.next, next) << i;
  }
}

TEST(Lookup, AShorterTextIsAnotherText) {
  Lookup lookup;
  EXPECT_EQ(lookup.find(history_of({1, 2, 3, 4, 1, 2})).match, 2u);
  EXPECT_EQ(lookup.find(history_of({5, 6, 5, 6})).match, 2u);
  EXPECT_EQ(lookup.find(history_of({1, 2, 3})).match, 0u);
}

}  // namespace
}  // namespace sluice
