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

// Any sequence of operations keeps free + held = total, and no block has two holders.
TEST(BlockPool, RandomOperationsBalance) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const int total = static_cast<int>(random() % 40);
    BlockPool pool(total);
    std::vector<BlockTable> tables;
    for (int step = 0; step < 2000; ++step) {
      const uint32_t action = random() % 8;
      if (action == 0 || tables.empty()) {
        tables.emplace_back(pool);
      } else if (action == 1) {
        std::swap(tables[random() % tables.size()], tables.back());
        tables.pop_back();
      } else if (action == 2) {
        tables[random() % tables.size()].clear();
      } else {
        BlockTable& table = tables[random() % tables.size()];
        const int positions = static_cast<int>(random() % (12 * kBlockPositions));
        const int had = static_cast<int>(table.blocks().size());
        const int wanted = BlockPool::blocks_for(positions);
        const bool fits = wanted - had <= pool.free();
        ASSERT_EQ(table.grow_to(positions), fits);
        ASSERT_EQ(static_cast<int>(table.blocks().size()), fits ? std::max(had, wanted) : had);
      }
      std::set<BlockId> seen;
      size_t held = 0;
      for (const BlockTable& table : tables) {
        held += table.blocks().size();
        seen.insert(table.blocks().begin(), table.blocks().end());
      }
      ASSERT_EQ(seen.size(), held);
      ASSERT_EQ(static_cast<int>(held), pool.held());
      ASSERT_EQ(pool.free() + pool.held(), total);
      if (!seen.empty()) {
        ASSERT_GE(*seen.begin(), 0);
        ASSERT_LT(*seen.rbegin(), total);
      }
    }
    tables.clear();
    EXPECT_EQ(pool.free(), total);
  }
}

}  // namespace
}  // namespace weft
