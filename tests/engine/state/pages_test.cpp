#include "engine/state/pages.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Pages, ComeFromTheFreeListAndGoBack) {
  PagePool pool(3);
  EXPECT_EQ(pool.take(), 0u);
  EXPECT_EQ(pool.take(), 1u);
  EXPECT_EQ(pool.take(), 2u);
  EXPECT_EQ(pool.take(), std::nullopt);
  pool.release(1);
  EXPECT_EQ(pool.free(), 1u);
  EXPECT_EQ(pool.take(), 1u);
}

TEST(Pages, ACopyOfATableSharesItsPages) {
  PagePool pool(4);
  PageTable table(pool);
  ASSERT_TRUE(table.grow() && table.grow());
  {
    const PageTable copy = table;
    EXPECT_EQ(pool.references(table.page(0)), 2u);
    EXPECT_TRUE(table.shared(1));
    EXPECT_EQ(pool.free(), 2u);
  }
  EXPECT_FALSE(table.shared(1));
  table.clear();
  EXPECT_EQ(pool.free(), 4u);
}

TEST(Pages, ASharedPageIsReplacedByAnOwnOne) {
  PagePool pool(2);
  PageTable table(pool);
  ASSERT_TRUE(table.grow());
  const PageTable copy = table;
  const auto copied = table.unshare(0);
  ASSERT_TRUE(copied.has_value());
  EXPECT_EQ(copied->from, copy.page(0));
  EXPECT_EQ(copied->to, table.page(0));
  EXPECT_NE(copied->from, copied->to);
  EXPECT_EQ(pool.references(copied->from), 1u);
  const PageTable again = table;
  EXPECT_EQ(table.unshare(0), std::nullopt) << "the pool is empty";
  EXPECT_EQ(table.page(0), copied->to);
}

TEST(Pages, TablesLoseTheirFrontAndTheirEnd) {
  PagePool pool(5);
  PageTable table(pool);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(table.grow());
  table.drop_before(2);
  EXPECT_EQ(table.first(), 2u);
  EXPECT_EQ(table.end(), 5u);
  EXPECT_EQ(table.page(2), 2u);
  table.drop_from(4);
  EXPECT_EQ(table.end(), 4u);
  EXPECT_EQ(pool.free(), 3u);
  table.drop_before(9);
  EXPECT_EQ(table.first(), 9u) << "an empty table begins where it was cut";
  EXPECT_EQ(pool.free(), 5u);
}

TEST(Pages, APartHoldsReferencesOfItsOwn) {
  PagePool pool(3);
  PageTable table(pool);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(table.grow());
  const PageTable part = table.part(1, 2);
  table.clear();
  EXPECT_EQ(part.first(), 1u);
  EXPECT_EQ(part.end(), 2u);
  EXPECT_EQ(pool.free(), 2u);
}

TEST(Pages, AWindowSeesItsLastPositionsOnly) {
  EXPECT_EQ(first_seen_page(0, 5000), 0u);
  EXPECT_EQ(first_seen_page(64, 63), 0u);
  EXPECT_EQ(first_seen_page(64, 126), 0u) << "position 63 is still seen";
  EXPECT_EQ(first_seen_page(64, 127), 1u);
  EXPECT_EQ(first_seen_page(96, 1000), 14u);
  EXPECT_EQ(pages_for(0), 0u);
  EXPECT_EQ(pages_for(64), 1u);
  EXPECT_EQ(pages_for(65), 2u);
}

}  // namespace
}  // namespace sluice
