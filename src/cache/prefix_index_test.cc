#include "cache/prefix_index.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace weft {
namespace {

using BlockTokens = std::array<TokenId, kBlockPositions>;

BlockTokens text(TokenId last) {
  BlockTokens tokens{};
  tokens.back() = last;
  return tokens;
}

std::vector<BlockId> erase(PrefixIndex& index, BlockId block) {
  std::vector<BlockId> erased;
  index.erase(block, [&](BlockId id) { erased.push_back(id); });
  return erased;
}

TEST(PrefixIndex, FindsByParentAndTokens) {
  PrefixIndex index(4);
  EXPECT_EQ(index.find(kNoBlock, text(1)), kNoBlock);
  index.insert(2, kNoBlock, text(1));
  index.insert(0, 2, text(1));
  EXPECT_EQ(index.find(kNoBlock, text(1)), 2);
  EXPECT_EQ(index.find(2, text(1)), 0);
  EXPECT_EQ(index.find(0, text(1)), kNoBlock);
  EXPECT_EQ(index.find(kNoBlock, text(2)), kNoBlock);
  EXPECT_EQ(index.parent(0), 2);
  EXPECT_EQ(index.parent(2), kNoBlock);
}

TEST(PrefixIndex, ErasesABlockWithAllThatFollows) {
  PrefixIndex index(6);
  index.insert(0, kNoBlock, text(1));
  index.insert(1, 0, text(2));
  index.insert(2, 0, text(3));
  index.insert(3, 2, text(4));
  index.insert(4, kNoBlock, text(5));
  EXPECT_EQ(erase(index, 3), (std::vector<BlockId>{3}));
  EXPECT_EQ(erase(index, 0), (std::vector<BlockId>{2, 1, 0}));
  EXPECT_EQ(index.find(kNoBlock, text(1)), kNoBlock);
  EXPECT_EQ(index.find(kNoBlock, text(5)), 4);
  EXPECT_FALSE(index.contains(2));
}

TEST(PrefixIndex, AReusedBlockIsAnotherInsertion) {
  PrefixIndex index(2);
  index.insert(1, kNoBlock, text(1));
  const uint64_t before = index.serial(1);
  erase(index, 1);
  EXPECT_EQ(index.serial(1), 0U);
  index.insert(1, kNoBlock, text(1));
  EXPECT_NE(index.serial(1), before);
}

// More blocks than buckets can keep apart, so lists are searched and mended in the middle.
TEST(PrefixIndex, KeepsManyBlocksApart) {
  constexpr int kBlocks = 1000;
  PrefixIndex index(kBlocks);
  for (BlockId id = 0; id < kBlocks; ++id) index.insert(id, kNoBlock, text(7 * id));
  for (BlockId id = 0; id < kBlocks; id += 2)
    ASSERT_EQ(erase(index, id), (std::vector<BlockId>{id}));
  for (BlockId id = 0; id < kBlocks; ++id)
    ASSERT_EQ(index.find(kNoBlock, text(7 * id)), id % 2 == 0 ? kNoBlock : id);
}

}  // namespace
}  // namespace weft
