#pragma once
// KvCache: the keys and values of all blocks, one allocation.

#include <cstdint>

#include "base/result.h"
#include "kernels/kernel_table.h"
#include "tensor/buffer.h"

namespace weft {

class KvCache {
 public:
  static Result<KvCache> create(const KernelTable& kernels, const KvLayout& layout, int layers,
                                int blocks);

  const KvLayout& layout() const { return layout_; }
  KvLayerView layer(int layer) {
    return {buffer_.data() + layer * blocks_ * block_bytes_, block_bytes_};
  }

 private:
  KvLayout layout_;
  int64_t blocks_ = 0;
  int64_t block_bytes_ = 0;  // of one layer
  Buffer buffer_;            // [layers, blocks, block_bytes]
};

}  // namespace weft
