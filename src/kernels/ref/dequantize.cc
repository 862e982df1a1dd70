#include "kernels/ref/dequantize.h"

#include <cstring>

#include "base/check.h"
#include "kernels/half.h"
#include "kernels/ref/quant_blocks.h"

namespace weft {
namespace {

template <float (*Widen)(uint16_t)>
void widen(const std::byte* values, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, values + 2 * i, 2);
    out[i] = Widen(bits);
  }
}

}  // namespace

void dequantize(DType type, const std::byte* blocks, int64_t n, float* out) {
  if (type == DType::kF32) {
    std::memcpy(out, blocks, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  if (type == DType::kF16) return widen<half_to_float>(blocks, n, out);
  if (type == DType::kBF16) return widen<bfloat16_to_float>(blocks, n, out);
  const DTypeInfo& info = dtype_info(type);
  WEFT_CHECK(n % info.block_elems == 0, "{} values are not whole blocks of {}", n, info.name);
  QuantBlock block;
  for (int64_t i = 0; i < n; i += info.block_elems, blocks += info.block_bytes) {
    split_block(type, blocks, block);
    block_values(type, block, out + i);
  }
}

}  // namespace weft
