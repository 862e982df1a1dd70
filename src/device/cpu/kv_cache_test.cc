#include "device/cpu/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>

namespace weft {
namespace {

constexpr int kLayers = 3;
constexpr int kBlocks = 4;

TEST(KvCache, LayersOfABlockLieTogetherAndNothingOverlaps) {
  const KernelTable& kernels = *find_kernels("ref").value();
  const KvLayout layout{KvType::kF16, 2, 16};
  KvCache cache = KvCache::create(kernels, layout, kLayers, kBlocks).value();
  const int64_t bytes = kernels.kv_block_bytes(layout);
  const std::byte* next = cache.layer(0).base;
  for (int block = 0; block < kBlocks; ++block) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const KvLayerView view = cache.layer(layer);
      EXPECT_EQ(view.base + block * view.block_stride, next) << block << ", " << layer;
      next += bytes;
    }
  }
}

TEST(KvCache, EveryByteCanBeWritten) {
  const KernelTable& kernels = *find_kernels("ref").value();
  const KvLayout layout{KvType::kQ8_0, 1, 32};
  KvCache cache = KvCache::create(kernels, layout, kLayers, kBlocks).value();
  const auto bytes = static_cast<size_t>(kernels.kv_block_bytes(layout));
  for (int layer = 0; layer < kLayers; ++layer) {
    const KvLayerView view = cache.layer(layer);
    for (int block = 0; block < kBlocks; ++block)
      std::memset(view.base + block * view.block_stride, 1 + layer * kBlocks + block, bytes);
  }
  for (int layer = 0; layer < kLayers; ++layer) {
    const KvLayerView view = cache.layer(layer);
    for (int block = 0; block < kBlocks; ++block) {
      const std::byte* at = view.base + block * view.block_stride;
      EXPECT_EQ(at[0], std::byte(1 + layer * kBlocks + block));
      EXPECT_EQ(at[bytes - 1], std::byte(1 + layer * kBlocks + block));
    }
  }
}

}  // namespace
}  // namespace weft
