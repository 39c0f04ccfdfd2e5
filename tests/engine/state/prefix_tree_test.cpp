#include "engine/state/prefix_tree.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

History prompt(size_t tokens, int32_t seed) {
  History history;
  for (size_t i = 0; i < tokens; ++i) history.push_back({static_cast<int32_t>(i) * 7 + seed, TokenClass::prompt});
  return history;
}

Snapshot at(uint32_t length) { return {length, {}}; }

TEST(PrefixTree, FindsTheLongestSnapshotThatAHistoryBeginsWith) {
  PrefixTree tree(false);
  const History history = prompt(300, 1);
  tree.insert(history, at(64));
  tree.insert(history, at(192));
  EXPECT_EQ(tree.find(history, 300)->length, 192u);
  EXPECT_EQ(tree.find(history, 191)->length, 64u);
  EXPECT_EQ(tree.find(history, 63), nullptr);
  EXPECT_EQ(tree.find(prompt(300, 2), 300), nullptr);
  EXPECT_EQ(tree.find({}, 10), nullptr);
}

TEST(PrefixTree, AnotherTokenOrClassIsAnotherHistory) {
  PrefixTree tree(false);
  const History history = prompt(128, 1);
  tree.insert(history, at(128));
  History other_token = history, other_class = history;
  other_token[127].token += 1;
  other_class[70].token_class = TokenClass::decode;
  EXPECT_EQ(tree.find(other_token, 128), nullptr);
  EXPECT_EQ(tree.find(other_class, 128), nullptr);
}

TEST(PrefixTree, WhereClassesAreBitEqualTheyAreNotPartOfTheKey) {
  PrefixTree tree(true);
  History history = prompt(128, 1);
  tree.insert(history, at(128));
  history[70].token_class = TokenClass::decode;
  EXPECT_EQ(tree.find(history, 128)->length, 128u);
}

TEST(PrefixTree, EvictsSnapshotsAtNoBoundaryFirst) {
  PrefixTree tree(false);
  const History history = prompt(300, 1);
  tree.insert(history, at(64));
  tree.insert(history, {.length = 128, .at_boundary = false});
  tree.insert(history, {.length = 192, .at_boundary = false});
  tree.insert(history, {.length = 256, .at_boundary = false});
  tree.insert(history, at(256));  // one now
  EXPECT_EQ(tree.find(history, 140)->length, 128u) << "found: two histories part there";
  EXPECT_TRUE(tree.evict());
  EXPECT_EQ(tree.find(history, 255)->length, 128u) << "192 went";
  EXPECT_TRUE(tree.evict());
  EXPECT_EQ(tree.find(history, 127), nullptr) << "then the oldest";
  EXPECT_EQ(tree.size(), 2u);
}

TEST(PrefixTree, ForgetsTheLeastRecentlyUsed) {
  PrefixTree tree(false);
  const History a = prompt(64, 1), b = prompt(64, 2), c = prompt(64, 3);
  tree.insert(a, at(64));
  tree.insert(b, at(64));
  tree.insert(c, at(64));
  EXPECT_NE(tree.find(a, 64), nullptr);
  EXPECT_TRUE(tree.evict());
  EXPECT_EQ(tree.find(b, 64), nullptr);
  EXPECT_NE(tree.find(a, 64), nullptr);
  EXPECT_TRUE(tree.evict());
  EXPECT_TRUE(tree.evict());
  EXPECT_FALSE(tree.evict());
  EXPECT_EQ(tree.size(), 0u);
}

TEST(PrefixTree, EvictingAnInnerSnapshotKeepsTheOneBehindIt) {
  PrefixTree tree(false);
  const History history = prompt(192, 1);
  tree.insert(history, at(192));
  tree.insert(history, at(64));
  tree.find(history, 192);
  EXPECT_TRUE(tree.evict());
  EXPECT_EQ(tree.find(history, 128), nullptr);
  EXPECT_EQ(tree.find(history, 192)->length, 192u);
  tree.insert(history, at(128));
  EXPECT_EQ(tree.find(history, 191)->length, 128u);
}

TEST(PrefixTree, GivesPagesBackWhenASnapshotGoes) {
  PagePool pool(2);
  PrefixTree tree(false);
  {
    PageTable table(pool);
    ASSERT_TRUE(table.grow());
    tree.insert(prompt(64, 1), {64, {table}});
  }
  EXPECT_EQ(pool.free(), 1u);
  tree.evict();
  EXPECT_EQ(pool.free(), 2u);
}

TEST(PrefixTree, APathAsLongAsALargeContextNeedsNoRecursion) {
  PrefixTree tree(false);
  const History history = prompt(64 * 4096, 1);
  tree.insert(history, at(64 * 4096));
  EXPECT_EQ(tree.find(history, history.size())->length, 64u * 4096);
  EXPECT_TRUE(tree.evict());
  EXPECT_EQ(tree.find(history, history.size()), nullptr);
}

}  // namespace
}  // namespace sluice
