// The exponential of every SIMD kernel. Included once for each target; see kernels/simd.h.
// Uses: simd.h has been included and WEFT_SIMD_TARGET is 1.

#include <cmath>
#include <cstdint>

#if defined(WEFT_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_EXP_INL_H
#undef WEFT_EXP_INL_H
#else
#define WEFT_EXP_INL_H
#endif

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kLog2E = 1.44269504F;

// 2^x for x <= 0: relative error below 2.5e-7 (two units in the last place), exactly 1 at 0 and
// exactly 0 below -125, for minus infinity too; NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> exp2_nonpositive(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  // Adding 1.5 * 2^23 rounds to an integer, which then lies in the low bits of the sum; 127 more
  // make it the exponent.
  const auto magic = hn::Set(d, 12582912.0F + 127.0F);
  const auto shifted = hn::Add(x, magic);
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  const auto r = hn::Sub(x, hn::Sub(shifted, magic));  // in [-0.5, 0.5], exact
  // Minimax for the relative error, with the constant term held at 1: 1.1e-7.
  auto p = hn::Set(d, 0x1.5bba8cp-10F);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.3ceabep-7F));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.c6b754p-5F));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.ebf9bcp-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.62e42ap-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -125.0F)), hn::Mul(p, power));
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET
#endif  // include guard
