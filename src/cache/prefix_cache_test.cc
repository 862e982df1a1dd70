// Sharing and giving up blocks by content: single cases, and random operations against a model.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "cache/block_pool.h"

namespace weft {
namespace {

using Text = std::vector<TokenId>;
using Ids = std::vector<BlockId>;

// One block of tokens for each digit.
Text text_of(const std::vector<int>& digits) {
  Text text;
  for (const int digit : digits)
    for (int i = 0; i < kBlockPositions; ++i) text.push_back(digit * 1000 + i);
  return text;
}

// Writes all of a text into a new table.
BlockTable written(BlockPool& pool, const Text& text) {
  BlockTable table(pool);
  EXPECT_TRUE(table.grow_to(static_cast<int>(text.size())));
  table.publish(text, static_cast<int>(text.size()) / kBlockPositions);
  return table;
}

void keep(BlockPool& pool, const std::vector<int>& digits) { written(pool, text_of(digits)); }

int known(const BlockPool& pool, const std::vector<int>& digits) {
  return pool.match(text_of(digits), 100).blocks;
}

TEST(PrefixCache, KeepsContentUntilBlocksAreNeeded) {
  BlockPool pool(4);
  keep(pool, {1, 2});
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(pool.available(), 4);
  BlockTable table(pool);
  EXPECT_EQ(table.adopt(text_of({1, 2, 3}), 100), 2);
  EXPECT_EQ(table.blocks(), (Ids{0, 1}));
  EXPECT_EQ(pool.held(), 2);
  EXPECT_TRUE(table.grow_to(4 * kBlockPositions));
  EXPECT_EQ(table.blocks(), (Ids{0, 1, 2, 3}));
  pool.check();
}

TEST(PrefixCache, UnpublishedContentIsForgotten) {
  BlockPool pool(4);
  {
    BlockTable table(pool);
    ASSERT_TRUE(table.grow_to(4 * kBlockPositions));
    table.publish(text_of({1, 2, 3, 4}), 2);
  }
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_EQ(known(pool, {1, 2, 3, 4}), 2);
}

TEST(PrefixCache, AdoptsNoMoreThanAskedForAndOnlyFullBlocks) {
  BlockPool pool(4);
  keep(pool, {1, 2, 3});
  const Text text = text_of({1, 2, 3});
  BlockTable table(pool);
  EXPECT_EQ(table.adopt(std::span(text).first(text.size() - 1), 100), 2);
  table.clear();
  EXPECT_EQ(table.adopt(text, 1), 1);
  table.clear();
  EXPECT_EQ(table.adopt(text, 0), 0);
}

TEST(PrefixCache, MatchTellsWhatIsHeldAlready) {
  BlockPool pool(6);
  keep(pool, {1, 2, 3});
  BlockTable table(pool);
  ASSERT_EQ(table.adopt(text_of({1}), 100), 1);
  const PrefixMatch match = pool.match(text_of({1, 2, 3, 4}), 100);
  EXPECT_EQ(match.blocks, 3);
  EXPECT_EQ(match.held, 1);
}

TEST(PrefixCache, SharedBlocksGoWithTheirLastHolder) {
  BlockPool pool(3);
  keep(pool, {1});
  BlockTable a(pool);
  BlockTable b(pool);
  ASSERT_EQ(a.adopt(text_of({1}), 100), 1);
  ASSERT_EQ(b.adopt(text_of({1}), 100), 1);
  EXPECT_EQ(a.blocks(), b.blocks());
  EXPECT_EQ(pool.held(), 1);
  a.clear();
  EXPECT_EQ(pool.held(), 1);
  EXPECT_FALSE(a.grow_to(3 * kBlockPositions));
  b.clear();
  EXPECT_EQ(pool.cached(), 1);
  EXPECT_TRUE(a.grow_to(3 * kBlockPositions));
  EXPECT_EQ(known(pool, {1}), 0);
}

TEST(PrefixCache, GivesUpTheLeastRecentlyUsedAndTheEndOfATextFirst) {
  BlockPool pool(4);
  keep(pool, {1, 2});
  keep(pool, {3, 4});
  written(pool, text_of({1}));  // by itself this finds the text indexed already
  BlockTable table(pool);
  ASSERT_TRUE(table.grow_to(kBlockPositions));
  EXPECT_EQ(known(pool, {1, 2}), 1) << "2 was not used since; 4 and 3 were before 1";
  ASSERT_TRUE(table.grow_to(2 * kBlockPositions));
  EXPECT_EQ(known(pool, {3, 4}), 1);
  ASSERT_TRUE(table.grow_to(3 * kBlockPositions));
  EXPECT_EQ(known(pool, {3, 4}), 0);
  EXPECT_EQ(known(pool, {1, 2}), 1);
}

TEST(PrefixCache, TextIndexedAlreadyStaysUnderItsBlocks) {
  BlockPool pool(8);
  BlockTable first = written(pool, text_of({1, 2}));
  BlockTable second = written(pool, text_of({1, 2, 3}));
  EXPECT_EQ(pool.held(), 5);
  second.clear();
  EXPECT_EQ(pool.cached(), 1) << "only 3 is new";
  BlockTable third(pool);
  EXPECT_EQ(third.adopt(text_of({1, 2, 3}), 100), 3);
  EXPECT_EQ(third.blocks()[1], first.blocks()[1]);
}

TEST(PrefixCache, WhatFollowsAGivenUpBlockIsGivenUpToo) {
  BlockPool pool(4);
  keep(pool, {1});
  BlockTable own(pool);  // the same text in a block of its own, and more
  ASSERT_TRUE(own.grow_to(2 * kBlockPositions));
  own.publish(text_of({1, 2}), 2);
  EXPECT_EQ(known(pool, {1, 2}), 2);
  BlockTable other(pool);
  ASSERT_TRUE(other.grow_to(2 * kBlockPositions));  // takes the cached 1
  EXPECT_EQ(known(pool, {1, 2}), 0);
  pool.check();
  own.publish(text_of({1, 2}), 2);
  EXPECT_EQ(known(pool, {1, 2}), 2);
  own.clear();
  EXPECT_EQ(pool.cached(), 2);
  pool.check();
}

TEST(PrefixCache, WithdrawnContentLeavesTheIndexAndWhatFollowsIt) {
  BlockPool pool(8);
  BlockTable other = written(pool, text_of({1, 3}));
  keep(pool, {1, 4});
  BlockTable bad(pool);
  ASSERT_EQ(bad.adopt(text_of({1}), 100), 1);
  ASSERT_TRUE(bad.grow_to(2 * kBlockPositions));
  bad.publish(text_of({1, 2}), 2);
  bad.withdraw();
  EXPECT_EQ(known(pool, {1, 2}), 0);
  EXPECT_EQ(pool.cached(), 0);
  pool.check();
  bad.clear();
  other.clear();
  EXPECT_EQ(pool.free(), 8);
}

TEST(PrefixCache, GenerationMovesWithTheAnswersOfMatch) {
  BlockPool pool(3);
  uint64_t last = pool.generation();
  const auto moved = [&] { return std::exchange(last, pool.generation()) != last; };
  BlockTable table(pool);
  ASSERT_TRUE(table.grow_to(2 * kBlockPositions));
  EXPECT_FALSE(moved());
  table.publish(text_of({1, 2}), 1);
  EXPECT_TRUE(moved());
  table.publish(text_of({1, 2}), 1);
  EXPECT_FALSE(moved());
  table.clear();
  EXPECT_TRUE(moved());
  ASSERT_EQ(table.adopt(text_of({1}), 1), 1);
  EXPECT_TRUE(moved());
  table.clear();
  EXPECT_TRUE(moved());
  ASSERT_TRUE(table.grow_to(3 * kBlockPositions));
  EXPECT_TRUE(moved());
}

// The same rules without a block: texts (as lists of digits) that are indexed, each with the block
// that holds it and when it was last used.
class Model {
 public:
  using Path = std::vector<int>;
  struct Entry {
    BlockId block;
    uint64_t born;
    uint64_t used;  // the larger, the later it is given up
  };

  explicit Model(int blocks) : holders_(static_cast<size_t>(blocks)) {}

  int held() const {
    return static_cast<int>(
        std::count_if(holders_.begin(), holders_.end(), [](int n) { return n > 0; }));
  }
  int cached() const {
    return static_cast<int>(std::count_if(index_.begin(), index_.end(), [&](const auto& entry) {
      return holders(entry.second.block) == 0;
    }));
  }
  PrefixMatch match(const Path& path, int most) const {
    PrefixMatch match;
    for (; match.blocks < std::min(most, static_cast<int>(path.size())); ++match.blocks) {
      const auto found = index_.find(beginning(path, match.blocks + 1));
      if (found == index_.end()) break;
      match.held += holders(found->second.block) > 0 ? 1 : 0;
    }
    return match;
  }
  // Blocks that are taken may be any free ones, or those of the oldest texts.
  void took(const Ids& blocks) {
    for (const BlockId id : blocks) {
      const int free = static_cast<int>(holders_.size()) - held() - cached();
      if (free == 0) {
        const auto oldest = std::min_element(
            index_.begin(), index_.end(),
            [&](const auto& a, const auto& b) { return age(a.second) < age(b.second); });
        ASSERT_EQ(holders(oldest->second.block), 0);
        ASSERT_EQ(oldest->second.block, id);
        erase(oldest->first);
      }
      ASSERT_EQ(holders(id), 0);
      ASSERT_FALSE(path_of(id));
      ++holders_[static_cast<size_t>(id)];
    }
  }
  void adopted(const Path& path, const Ids& blocks) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      ASSERT_EQ(index_.at(beginning(path, i + 1)).block, blocks[i]);
      ++holders_[static_cast<size_t>(blocks[i])];
    }
  }
  void published(const Path& path, const Ids& blocks, size_t count) {
    for (size_t i = 0; i < count; ++i)
      index_.try_emplace(beginning(path, i + 1), Entry{blocks[i], ++time_, 0});
  }
  uint64_t born(const Path& path, size_t blocks) const {
    const auto found = index_.find(beginning(path, blocks));
    return found == index_.end() ? 0 : found->second.born;
  }
  // Used are its own indexed blocks, and what it followed up to `blocks_followed` unless that was
  // given up since it was `born`, each with all before it.
  void cleared(const Path& path, const Ids& blocks, size_t blocks_followed, uint64_t born_at) {
    for (const BlockId id : blocks) --holders_[static_cast<size_t>(id)];
    size_t own = 0;
    for (const BlockId id : blocks) {
      if (const std::optional<Path> indexed = path_of(id)) own = std::max(own, indexed->size());
    }
    use(beginning(path, own));
    if (blocks_followed > 0 && born(path, blocks_followed) == born_at)
      use(beginning(path, blocks_followed));
  }
  void withdrawn(const Ids& blocks) {
    for (const BlockId id : blocks) {
      if (const std::optional<Path> path = path_of(id)) erase(*path);
    }
  }

 private:
  void use(const Path& path) {
    for (size_t i = path.size(); i > 0; --i) index_.at(beginning(path, i)).used = ++time_;
  }
  static Path beginning(const Path& path, size_t blocks) {
    return {path.begin(), path.begin() + static_cast<std::ptrdiff_t>(blocks)};
  }
  int holders(BlockId id) const { return holders_[static_cast<size_t>(id)]; }
  uint64_t age(const Entry& entry) const {
    return holders(entry.block) > 0 ? UINT64_MAX : entry.used;
  }
  std::optional<Path> path_of(BlockId id) const {
    for (const auto& [path, entry] : index_)
      if (entry.block == id) return path;
    return std::nullopt;
  }
  void erase(Path path) {
    std::erase_if(index_, [&](const auto& entry) {
      return entry.first.size() >= path.size() &&
             std::equal(path.begin(), path.end(), entry.first.begin());
    });
  }

  std::map<Path, Entry> index_;
  std::vector<int> holders_;
  uint64_t time_ = 0;
};

struct Sequence {
  explicit Sequence(BlockPool& pool) : table(pool) {}
  BlockTable table;
  std::vector<int> digits;
  size_t written = 0;
  uint64_t born = 0;  // of the index's entry for all that is written
};

class RandomOperations {
 public:
  RandomOperations(uint32_t seed, int blocks) : random_(seed), pool_(blocks), model_(blocks) {}
  ~RandomOperations() { sequences_.clear(); }

  void step() {
    const uint32_t action = draw(16);
    if (sequences_.empty() || (action == 0 && sequences_.size() < 6)) {
      start();
      return;
    }
    const size_t which = draw(static_cast<uint32_t>(sequences_.size()));
    Sequence& sequence = sequences_[which];
    if (action < 7) {
      grow(sequence);
    } else if (action < 13) {
      publish(sequence);
    } else if (action == 13 && draw(4) == 0) {
      sequence.table.withdraw();
      model_.withdrawn(sequence.table.blocks());
      sequence.written = 0;
      end(which);
    } else {
      end(which);
    }
  }

  void check() {
    pool_.check();
    ASSERT_EQ(pool_.held(), model_.held());
    ASSERT_EQ(pool_.cached(), model_.cached());
    ASSERT_EQ(pool_.free(), pool_.total() - model_.held() - model_.cached());
    const std::vector<int> digits = random_digits();
    const int most = static_cast<int>(draw(6));
    const PrefixMatch match = pool_.match(text_of(digits), most);
    const PrefixMatch expected = model_.match(digits, most);
    ASSERT_EQ(match.blocks, expected.blocks);
    ASSERT_EQ(match.held, expected.held);
    if (pool_.generation() == generation_ && digits == digits_ && most == most_) {
      ASSERT_EQ(match.blocks, match_.blocks);
      ASSERT_EQ(match.held, match_.held);
    }
    generation_ = pool_.generation();
    digits_ = digits;
    most_ = most;
    match_ = match;
  }

 private:
  uint32_t draw(uint32_t below) { return random_() % below; }
  // Few texts, so that they often begin alike.
  std::vector<int> random_digits() {
    std::vector<int> digits(draw(6));
    for (int& digit : digits) digit = static_cast<int>(draw(2));
    return digits;
  }

  void start() {
    Sequence& sequence = sequences_.emplace_back(pool_);
    sequence.digits = random_digits();
    const int most = static_cast<int>(draw(7));
    const int expected = model_.match(sequence.digits, most).blocks;
    ASSERT_EQ(sequence.table.adopt(text_of(sequence.digits), most), expected);
    model_.adopted(sequence.digits, sequence.table.blocks());
    sequence.written = static_cast<size_t>(expected);
    sequence.born = model_.born(sequence.digits, sequence.written);
  }

  void grow(Sequence& sequence) {
    const Ids before = sequence.table.blocks();
    const int wanted = static_cast<int>(before.size() + draw(3));
    const bool fits = wanted - static_cast<int>(before.size()) <= pool_.available();
    ASSERT_EQ(sequence.table.grow_to(wanted * kBlockPositions), fits);
    const Ids& after = sequence.table.blocks();
    ASSERT_EQ(after.size(), fits ? static_cast<size_t>(wanted) : before.size());
    ASSERT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
    model_.took({after.begin() + static_cast<std::ptrdiff_t>(before.size()), after.end()});
    while (sequence.digits.size() < after.size())
      sequence.digits.push_back(static_cast<int>(draw(2)));
  }

  void publish(Sequence& sequence) {
    const size_t blocks = sequence.table.blocks().size();
    if (blocks > sequence.written) {
      sequence.written += 1 + draw(static_cast<uint32_t>(blocks - sequence.written));
    }
    sequence.table.publish(text_of(sequence.digits), static_cast<int>(sequence.written));
    model_.published(sequence.digits, sequence.table.blocks(), sequence.written);
    sequence.born = model_.born(sequence.digits, sequence.written);
  }

  void end(size_t which) {
    Sequence& sequence = sequences_[which];
    const Ids blocks = sequence.table.blocks();
    sequence.table.clear();
    ASSERT_TRUE(sequence.table.blocks().empty());
    model_.cleared(sequence.digits, blocks, sequence.written, sequence.born);
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  std::mt19937 random_;
  BlockPool pool_;
  Model model_;
  std::vector<Sequence> sequences_;
  uint64_t generation_ = 0;
  std::vector<int> digits_;
  int most_ = 0;
  PrefixMatch match_;
};

TEST(PrefixCache, RandomOperationsAgreeWithAModel) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    RandomOperations operations(seed, static_cast<int>(seed % 30));
    for (int step = 0; step < 1500; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", step " << step);
      operations.step();
      if (testing::Test::HasFatalFailure()) return;
      operations.check();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace weft
