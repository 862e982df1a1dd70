#include "cache/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

namespace weft {
namespace {

TEST(BlockPool, CountsBlocksForPositions) {
  EXPECT_EQ(BlockPool::blocks_for(0), 0);
  EXPECT_EQ(BlockPool::blocks_for(1), 1);
  EXPECT_EQ(BlockPool::blocks_for(kBlockPositions), 1);
  EXPECT_EQ(BlockPool::blocks_for(kBlockPositions + 1), 2);
}

TEST(BlockTable, GrowsBySingleBlocksAndNeverShrinks) {
  BlockPool pool(3);
  BlockTable table(pool);
  EXPECT_TRUE(table.grow_to(1));
  EXPECT_TRUE(table.grow_to(kBlockPositions));
  EXPECT_EQ(table.blocks(), (std::vector<BlockId>{0}));
  EXPECT_TRUE(table.grow_to(kBlockPositions + 1));
  EXPECT_TRUE(table.grow_to(1));
  EXPECT_EQ(table.blocks(), (std::vector<BlockId>{0, 1}));
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.held(), 2);
}

TEST(BlockTable, ShortageChangesNothing) {
  BlockPool pool(2);
  BlockTable table(pool);
  ASSERT_TRUE(table.grow_to(1));
  EXPECT_FALSE(table.grow_to(3 * kBlockPositions));
  EXPECT_EQ(table.blocks().size(), 1U);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_TRUE(table.grow_to(2 * kBlockPositions));
}

TEST(BlockTable, GivesBlocksBackWhenItGoes) {
  BlockPool pool(2);
  {
    BlockTable table(pool);
    ASSERT_TRUE(table.grow_to(2 * kBlockPositions));
    EXPECT_EQ(pool.free(), 0);
  }
  EXPECT_EQ(pool.free(), 2);
}

TEST(BlockTable, MovingPassesTheBlocksOn) {
  BlockPool pool(4);
  BlockTable a(pool);
  BlockTable b(pool);
  ASSERT_TRUE(a.grow_to(2 * kBlockPositions));
  ASSERT_TRUE(b.grow_to(1));
  const std::vector<BlockId> blocks = a.blocks();
  b = std::move(a);
  EXPECT_EQ(b.blocks(), blocks);
  EXPECT_EQ(pool.held(), 2);
  BlockTable c(std::move(b));
  EXPECT_EQ(c.blocks(), blocks);
  EXPECT_EQ(pool.held(), 2);
  c.clear();
  EXPECT_EQ(pool.held(), 0);
}

TEST(BlockTable, GrowsWithinItsReserveWithoutMoving) {
  BlockPool pool(8);
  BlockTable table(pool);
  table.reserve(8 * kBlockPositions);
  ASSERT_TRUE(table.grow_to(1));
  const BlockId* first = table.blocks().data();
  ASSERT_TRUE(table.grow_to(8 * kBlockPositions));
  EXPECT_EQ(table.blocks().data(), first);
}

}  // namespace
}  // namespace weft
