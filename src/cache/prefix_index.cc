#include "cache/prefix_index.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace weft {
namespace {

// The finalizer of SplitMix64: every bit of the input reaches every bit of the output.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

uint64_t hash_of(uint64_t parent_hash, PrefixIndex::Tokens tokens) {
  uint64_t hash = parent_hash;
  for (const TokenId token : tokens)
    hash = mix(hash + 0x9e3779b97f4a7c15U + static_cast<uint32_t>(token));
  return hash;
}

}  // namespace

PrefixIndex::PrefixIndex(int blocks)
    : nodes_(static_cast<size_t>(blocks)),
      buckets_(std::bit_ceil(2 * static_cast<size_t>(blocks) + 1), kNoBlock),
      tokens_(static_cast<size_t>(blocks) * kBlockPositions) {}

BlockId PrefixIndex::find(BlockId parent, Tokens tokens) const {
  const uint64_t hash = hash_of(parent == kNoBlock ? 0 : node(parent).hash, tokens);
  BlockId block = buckets_[hash & (buckets_.size() - 1)];
  for (; block != kNoBlock; block = node(block).next_in_bucket) {
    if (node(block).hash == hash && node(block).parent == parent &&
        std::equal(tokens.begin(), tokens.end(), tokens_of(block)))
      return block;
  }
  return kNoBlock;
}

void PrefixIndex::insert(BlockId block, BlockId parent, Tokens tokens) {
  WEFT_CHECK(!contains(block), "block {} is indexed already", block);
  WEFT_CHECK(parent == kNoBlock || contains(parent), "parent {} is not indexed", parent);
  Node& n = node(block);
  n = {.serial = ++last_serial_,
       .hash = hash_of(parent == kNoBlock ? 0 : node(parent).hash, tokens),
       .parent = parent};
  std::copy(tokens.begin(), tokens.end(), tokens_of(block));
  n.next_in_bucket = bucket(n.hash);
  bucket(n.hash) = block;
  if (parent == kNoBlock) return;
  n.next_sibling = node(parent).first_child;
  if (n.next_sibling != kNoBlock) node(n.next_sibling).previous_sibling = block;
  node(parent).first_child = block;
}

void PrefixIndex::erase(BlockId block, const std::function<void(BlockId)>& erased) {
  WEFT_CHECK(contains(block), "block {} is not indexed", block);
  while (true) {
    BlockId leaf = block;
    while (node(leaf).first_child != kNoBlock) leaf = node(leaf).first_child;
    remove_leaf(leaf);
    erased(leaf);
    if (leaf == block) return;
  }
}

void PrefixIndex::remove_leaf(BlockId block) {
  Node& n = node(block);
  BlockId* link = &bucket(n.hash);
  while (*link != block) link = &node(*link).next_in_bucket;
  *link = n.next_in_bucket;
  if (n.next_sibling != kNoBlock) node(n.next_sibling).previous_sibling = n.previous_sibling;
  if (n.previous_sibling != kNoBlock) {
    node(n.previous_sibling).next_sibling = n.next_sibling;
  } else if (n.parent != kNoBlock) {
    node(n.parent).first_child = n.next_sibling;
  }
  n = {};
}

}  // namespace weft
