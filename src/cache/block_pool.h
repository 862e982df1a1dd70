#pragma once
// The KV pool as integers: which blocks are free, who holds the others, and what is kept for its
// content. The bytes belong to the device. Owned and used by the engine thread.
//
// A block is free (nobody holds it, its content means nothing), held (by one or more tables), or
// cached (nobody holds it, but its content is indexed). Content is indexed by publish() and found
// by adopt(); a held block may be indexed too. Cached blocks are given up for new ones, the least
// recently used first and of one text the last first.

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "cache/prefix_index.h"

namespace weft {

// What adopt() would take.
struct PrefixMatch {
  int blocks = 0;
  int held = 0;  // of these by other tables already; the others would leave BlockPool::available()
};

class BlockPool {
 public:
  explicit BlockPool(int blocks);
  ~BlockPool();  // every table must have gone
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  int total() const { return static_cast<int>(blocks_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int cached() const { return cached_; }
  int held() const { return held_; }
  int available() const { return free() + cached(); }  // to BlockTable::grow_to

  // The longest indexed beginning of a text in full blocks, `max_blocks` at most.
  PrefixMatch match(std::span<const TokenId> tokens, int max_blocks) const;
  // While it stands still, match() gives the same answers.
  uint64_t generation() const { return generation_; }

  // Counts everything anew: free + cached + held = total, and each block is where it belongs. For
  // tests and idle engines; an invariant that does not hold ends the process.
  void check() const;

  static int blocks_for(int positions) {
    return (positions + kBlockPositions - 1) / kBlockPositions;
  }

 private:
  friend class BlockTable;
  struct Block {
    int holders = 0;
    BlockId older = kNoBlock;  // neighbours while cached
    BlockId newer = kNoBlock;
  };

  Block& block(BlockId id) { return blocks_[static_cast<size_t>(id)]; }
  const Block& block(BlockId id) const { return blocks_[static_cast<size_t>(id)]; }

  BlockId take();         // a free block, else the least recently used cached one; held once
  void hold(BlockId id);  // once more, of an indexed block
  void release(BlockId id);
  void forget(BlockId id);     // leaves the index with all that follows it
  void refresh(BlockId last);  // its text was used: `last` and the blocks before it
  void link_newest(BlockId id);
  void unlink(BlockId id);

  std::vector<Block> blocks_;
  std::vector<BlockId> free_;
  PrefixIndex index_;
  BlockId oldest_ = kNoBlock;
  BlockId newest_ = kNoBlock;
  int cached_ = 0;
  int held_ = 0;
  uint64_t generation_ = 0;
};

// The blocks of one sequence, in order of positions. Gives them back when it goes. Move-only; the
// pool must outlive it.
class BlockTable {
 public:
  explicit BlockTable(BlockPool& pool) : pool_(&pool) {}
  ~BlockTable() { clear(); }
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;

  // Up to so many positions, grow_to() and adopt() allocate nothing and blocks() stays where it is.
  void reserve(int positions);

  // Makes room for `positions` positions. False, and nothing changed, if the pool has too few
  // blocks available.
  [[nodiscard]] bool grow_to(int positions);

  // Requires an empty table. Holds the blocks that match() names, and says how many: positions
  // below that many blocks are written already, and must not be written.
  int adopt(std::span<const TokenId> tokens, int max_blocks);

  // The first `full_blocks` blocks are written, with the keys and values of `tokens`: indexes those
  // that are not. Text that is indexed under other blocks stays so. `tokens` may only grow from
  // call to call until clear().
  void publish(std::span<const TokenId> tokens, int full_blocks);

  // Something is wrong with the content: takes what is indexed of it out of the index, also what
  // was adopted, and all that follows it in other texts.
  void withdraw();

  void clear();
  const std::vector<BlockId>& blocks() const { return blocks_; }

 private:
  bool follows_index() const;  // last_published_ has not been given up since

  BlockPool* pool_;
  std::vector<BlockId> blocks_;
  // The indexed block of this table's text up to which publish() has come, its insertion, and the
  // blocks so far. It may be another table's.
  int published_ = 0;
  BlockId last_published_ = kNoBlock;
  uint64_t serial_ = 0;
};

}  // namespace weft
