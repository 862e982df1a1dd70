#include "cache/block_pool.h"

#include <utility>

#include "base/check.h"

namespace weft {

BlockPool::BlockPool(int blocks) : total_(blocks) {
  WEFT_CHECK(blocks >= 0, "a pool of {} blocks", blocks);
  free_.reserve(static_cast<size_t>(blocks));
  // Taken from the back, so that the lowest ids go first and a small load touches little memory.
  for (BlockId id = blocks - 1; id >= 0; --id) free_.push_back(id);
}

BlockPool::~BlockPool() { WEFT_CHECK(held() == 0, "{} blocks outlive their pool", held()); }

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_), blocks_(std::exchange(other.blocks_, {})) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    clear();
    pool_ = other.pool_;
    blocks_ = std::exchange(other.blocks_, {});
  }
  return *this;
}

bool BlockTable::grow_to(int positions) {
  const auto wanted = static_cast<size_t>(BlockPool::blocks_for(positions));
  if (wanted <= blocks_.size()) return true;
  if (wanted - blocks_.size() > pool_->free_.size()) return false;
  blocks_.reserve(wanted);
  while (blocks_.size() < wanted) {
    blocks_.push_back(pool_->free_.back());
    pool_->free_.pop_back();
  }
  return true;
}

void BlockTable::clear() {
  // Last block first: the next owner gets them in the order this one had.
  for (; !blocks_.empty(); blocks_.pop_back()) pool_->free_.push_back(blocks_.back());
}

}  // namespace weft
