#pragma once
// The KV pool as integers: which blocks are free and who holds the others. The bytes belong to the
// device. Owned and used by the engine thread.

#include <vector>

#include "base/types.h"

namespace weft {

class BlockPool;

// The blocks of one sequence, in order of positions. Gives them back when it goes. Move-only; the
// pool must outlive it.
class BlockTable {
 public:
  explicit BlockTable(BlockPool& pool) : pool_(&pool) {}
  ~BlockTable() { clear(); }
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;

  // Makes room for `positions` positions. False, and nothing changed, if the pool has too few free
  // blocks.
  [[nodiscard]] bool grow_to(int positions);
  void clear();
  const std::vector<BlockId>& blocks() const { return blocks_; }

 private:
  BlockPool* pool_;
  std::vector<BlockId> blocks_;
};

class BlockPool {
 public:
  explicit BlockPool(int blocks);
  ~BlockPool();  // every table must have gone
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  int total() const { return total_; }
  int free() const { return static_cast<int>(free_.size()); }
  int held() const { return total_ - free(); }

  static int blocks_for(int positions) {
    return (positions + kBlockPositions - 1) / kBlockPositions;
  }

 private:
  friend class BlockTable;
  int total_;
  std::vector<BlockId> free_;
};

}  // namespace weft
