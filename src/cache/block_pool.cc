#include "cache/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft {
namespace {

PrefixIndex::Tokens tokens_of_block(std::span<const TokenId> tokens, int index) {
  return tokens.subspan(static_cast<size_t>(index) * kBlockPositions)
      .first<static_cast<size_t>(kBlockPositions)>();
}

int full_blocks(std::span<const TokenId> tokens) {
  return static_cast<int>(tokens.size() / kBlockPositions);
}

}  // namespace

BlockPool::BlockPool(int blocks) : blocks_(static_cast<size_t>(blocks)), index_(blocks) {
  free_.reserve(static_cast<size_t>(blocks));
  // Taken from the back, so that the lowest ids go first and a small load touches little memory.
  for (BlockId id = blocks - 1; id >= 0; --id) free_.push_back(id);
}

BlockPool::~BlockPool() { WEFT_CHECK(held() == 0, "{} blocks outlive their pool", held()); }

PrefixMatch BlockPool::match(std::span<const TokenId> tokens, int max_blocks) const {
  PrefixMatch match;
  const int most = std::min(max_blocks, full_blocks(tokens));
  for (BlockId last = kNoBlock; match.blocks < most; ++match.blocks) {
    last = index_.find(last, tokens_of_block(tokens, match.blocks));
    if (last == kNoBlock) break;
    if (block(last).holders > 0) ++match.held;
  }
  return match;
}

BlockId BlockPool::take() {
  if (free_.empty()) forget(oldest_);
  const BlockId id = free_.back();
  free_.pop_back();
  block(id).holders = 1;
  ++held_;
  return id;
}

void BlockPool::hold(BlockId id) {
  if (block(id).holders++ > 0) return;
  unlink(id);
  ++held_;
  ++generation_;
}

void BlockPool::release(BlockId id) {
  if (--block(id).holders > 0) return;
  --held_;
  if (index_.contains(id)) {
    link_newest(id);
    ++generation_;
  } else {
    free_.push_back(id);
  }
}

void BlockPool::forget(BlockId id) {
  ++generation_;
  index_.erase(id, [this](BlockId erased) {
    if (block(erased).holders > 0) return;
    unlink(erased);
    free_.push_back(erased);
  });
}

void BlockPool::refresh(BlockId last) {
  for (BlockId id = last; id != kNoBlock; id = index_.parent(id)) {
    if (block(id).holders > 0) continue;
    unlink(id);
    link_newest(id);
  }
}

void BlockPool::link_newest(BlockId id) {
  block(id).older = newest_;
  block(id).newer = kNoBlock;
  (newest_ == kNoBlock ? oldest_ : block(newest_).newer) = id;
  newest_ = id;
  ++cached_;
}

void BlockPool::unlink(BlockId id) {
  const Block b = block(id);
  (b.older == kNoBlock ? oldest_ : block(b.older).newer) = b.newer;
  (b.newer == kNoBlock ? newest_ : block(b.newer).older) = b.older;
  --cached_;
}

void BlockPool::check() const {
  int held = 0;
  for (const Block& b : blocks_) held += b.holders > 0 ? 1 : 0;
  WEFT_CHECK(held == held_, "{} blocks are held, {} counted", held, held_);
  std::vector<bool> seen(blocks_.size());
  const auto see = [&](BlockId id, bool indexed) {
    WEFT_CHECK(!seen[static_cast<size_t>(id)], "block {} is in two places", id);
    seen[static_cast<size_t>(id)] = true;
    WEFT_CHECK(block(id).holders == 0, "block {} has {} holders", id, block(id).holders);
    WEFT_CHECK(index_.contains(id) == indexed, "block {}: indexed is not {}", id, indexed);
  };
  for (const BlockId id : free_) see(id, false);
  int cached = 0;
  for (BlockId id = oldest_; id != kNoBlock; id = block(id).newer, ++cached) {
    see(id, true);
    // What comes earlier in a text is given up later.
    const BlockId parent = index_.parent(id);
    WEFT_CHECK(parent == kNoBlock || !seen[static_cast<size_t>(parent)],
               "block {} is younger than its parent {}", id, parent);
  }
  WEFT_CHECK(cached == cached_, "{} blocks are cached, {} counted", cached, cached_);
  WEFT_CHECK(free() + cached + held == total(), "{} free + {} cached + {} held of {} blocks",
             free(), cached, held, total());
}

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_),
      blocks_(std::exchange(other.blocks_, {})),
      published_(std::exchange(other.published_, 0)),
      last_published_(std::exchange(other.last_published_, kNoBlock)),
      serial_(std::exchange(other.serial_, 0)) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    clear();
    pool_ = other.pool_;
    blocks_ = std::exchange(other.blocks_, {});
    published_ = std::exchange(other.published_, 0);
    last_published_ = std::exchange(other.last_published_, kNoBlock);
    serial_ = std::exchange(other.serial_, 0);
  }
  return *this;
}

void BlockTable::reserve(int positions) {
  blocks_.reserve(static_cast<size_t>(BlockPool::blocks_for(positions)));
}

bool BlockTable::grow_to(int positions) {
  const auto wanted = static_cast<size_t>(BlockPool::blocks_for(positions));
  if (wanted <= blocks_.size()) return true;
  if (wanted - blocks_.size() > static_cast<size_t>(pool_->available())) return false;
  blocks_.reserve(wanted);
  while (blocks_.size() < wanted) blocks_.push_back(pool_->take());
  return true;
}

bool BlockTable::follows_index() const {
  return last_published_ == kNoBlock || pool_->index_.serial(last_published_) == serial_;
}

int BlockTable::adopt(std::span<const TokenId> tokens, int max_blocks) {
  WEFT_CHECK(blocks_.empty(), "a table of {} blocks adopts", blocks_.size());
  const PrefixIndex& index = pool_->index_;
  const int most = std::min(max_blocks, full_blocks(tokens));
  for (; published_ < most; ++published_) {
    const BlockId next = index.find(last_published_, tokens_of_block(tokens, published_));
    if (next == kNoBlock) break;
    pool_->hold(next);
    blocks_.push_back(next);
    last_published_ = next;
    serial_ = index.serial(next);
  }
  return published_;
}

void BlockTable::publish(std::span<const TokenId> tokens, int count) {
  WEFT_CHECK(count <= static_cast<int>(blocks_.size()) && count <= full_blocks(tokens),
             "{} full blocks of {}, {} tokens", count, blocks_.size(), tokens.size());
  PrefixIndex& index = pool_->index_;
  if (!follows_index()) {
    // Blocks of other tables that ours followed have been given up, and ours left the index.
    published_ = 0;
    last_published_ = kNoBlock;
  }
  for (; published_ < count; ++published_) {
    const PrefixIndex::Tokens text = tokens_of_block(tokens, published_);
    BlockId next = index.find(last_published_, text);
    if (next == kNoBlock) {
      next = blocks_[static_cast<size_t>(published_)];
      index.insert(next, last_published_, text);
      ++pool_->generation_;
    }
    last_published_ = next;
    serial_ = index.serial(next);
  }
}

void BlockTable::withdraw() {
  for (const BlockId id : blocks_) {
    if (pool_->index_.contains(id)) pool_->forget(id);
  }
  published_ = 0;
  last_published_ = kNoBlock;
}

void BlockTable::clear() {
  // Last block first: the next owner gets them in the order this one had, and of one text the last
  // is the oldest.
  BlockId last_indexed = kNoBlock;
  for (; !blocks_.empty(); blocks_.pop_back()) {
    const BlockId id = blocks_.back();
    if (last_indexed == kNoBlock && pool_->index_.contains(id)) last_indexed = id;
    pool_->release(id);
  }
  // Ours may follow another table's cached blocks, which must not be given up before them; and
  // those that stand for ours in the index have been used too.
  pool_->refresh(last_indexed);
  if (follows_index()) pool_->refresh(last_published_);
  published_ = 0;
  last_published_ = kNoBlock;
}

}  // namespace weft
