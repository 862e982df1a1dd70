#pragma once
// Which blocks hold which tokens: a tree whose nodes are full blocks. A node's path from the root
// spells the tokens of all positions up to its end, so equal paths mean equal keys and values.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/types.h"

namespace weft {

inline constexpr BlockId kNoBlock = -1;

// Owned by a BlockPool, used by its thread. All memory is taken at construction.
class PrefixIndex {
 public:
  explicit PrefixIndex(int blocks);  // ids 0 ... blocks - 1 may be indexed

  using Tokens = std::span<const TokenId, kBlockPositions>;

  // The block that follows `parent` (kNoBlock: begins a text) with these tokens, or kNoBlock. Found
  // by hash, decided by the tokens themselves.
  BlockId find(BlockId parent, Tokens tokens) const;
  // Requires: `parent` is indexed or kNoBlock, `block` is not, and find(parent, tokens) is
  // kNoBlock.
  void insert(BlockId block, BlockId parent, Tokens tokens);
  // Takes out an indexed block and all that follow it; each is named once, children first.
  void erase(BlockId block, const std::function<void(BlockId)>& erased);

  bool contains(BlockId block) const { return node(block).serial != 0; }
  BlockId parent(BlockId block) const { return node(block).parent; }
  // Of the insertion, never twice the same; 0 if not indexed.
  uint64_t serial(BlockId block) const { return node(block).serial; }

 private:
  struct Node {
    uint64_t serial = 0;
    uint64_t hash = 0;
    BlockId parent = kNoBlock;
    BlockId first_child = kNoBlock;
    BlockId next_sibling = kNoBlock;
    BlockId previous_sibling = kNoBlock;
    BlockId next_in_bucket = kNoBlock;
  };

  Node& node(BlockId block) { return nodes_[static_cast<size_t>(block)]; }
  const Node& node(BlockId block) const { return nodes_[static_cast<size_t>(block)]; }
  BlockId& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  TokenId* tokens_of(BlockId block) {
    return tokens_.data() + static_cast<size_t>(block) * kBlockPositions;
  }
  const TokenId* tokens_of(BlockId block) const {
    return tokens_.data() + static_cast<size_t>(block) * kBlockPositions;
  }
  void remove_leaf(BlockId block);

  uint64_t last_serial_ = 0;
  std::vector<Node> nodes_;
  std::vector<BlockId> buckets_;  // a power of two of lists
  std::vector<TokenId> tokens_;   // [blocks, kBlockPositions]
};

}  // namespace weft
