// What matmul.cc knows of the kernels for float weights. Included once for each target; see
// kernels/simd.h.

#if defined(WEFT_MATMUL_FLOAT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_MATMUL_FLOAT_INL_H
#undef WEFT_MATMUL_FLOAT_INL_H
#else
#define WEFT_MATMUL_FLOAT_INL_H
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"
#include "kernels/simd.h"

#if WEFT_SIMD_TARGET
namespace weft::HWY_NAMESPACE {

// Rows are packed as kF32 or kBF16 in tiles of at most so many rows.
inline constexpr int kFloatTileRows = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON ? 6 : 12;
// KernelTable::matmul for F32, F16 and BF16 weights and kF32 rows.
void multiply_float_panels(const PackedMatrix& matrix, const std::byte* activations, int64_t rows,
                           int64_t panel_begin, int64_t panel_end, const MatmulOutput& out);

}  // namespace weft::HWY_NAMESPACE
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_MATMUL_FLOAT_INL_H
