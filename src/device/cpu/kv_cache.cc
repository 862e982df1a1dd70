#include "device/cpu/kv_cache.h"

namespace weft {

Result<KvCache> KvCache::create(const KernelTable& kernels, const KvLayout& layout, int layers,
                                int blocks) {
  KvCache cache;
  cache.layout_ = layout;
  cache.layers_ = layers;
  cache.layer_bytes_ = kernels.kv_block_bytes(layout);
  WEFT_ASSIGN(cache.buffer_,
              Buffer::allocate(static_cast<size_t>(cache.layer_bytes_) *
                               static_cast<size_t>(blocks) * static_cast<size_t>(layers)));
  return cache;
}

}  // namespace weft
