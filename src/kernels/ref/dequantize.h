#pragma once
// Weights as floats, for every type: the meaning that all other kernels are held against.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace weft {

// The n values of the blocks at `blocks`, which lie as in a file: out [n]. n is a multiple of the
// type's block.
void dequantize(DType type, const std::byte* blocks, int64_t n, float* out);

}  // namespace weft
