#pragma once
// KvCache: the keys and values of all blocks, one allocation. A block's layers lie together, so
// that memory is touched for the first time block by block as sequences grow. Were a layer's blocks
// together, a step that comes to new huge pages would touch one for each layer.

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
    return {buffer_.data() + layer * layer_bytes_, layers_ * layer_bytes_};
  }

 private:
  KvLayout layout_;
  int64_t layers_ = 0;
  int64_t layer_bytes_ = 0;  // of one block
  Buffer buffer_;            // [blocks, layers, layer_bytes]
};

}  // namespace weft
