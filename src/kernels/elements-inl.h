// bf16 in vectors of floats: rounding, and dot products of pairs. Included once for each target;
// see kernels/simd.h.
//
// Two bf16 that are neighbours of a reduction share a 32-bit lane, the first in its lower half, so
// that a lane is an output here too.

#if defined(WEFT_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_ELEMENTS_INL_H
#undef WEFT_ELEMENTS_INL_H
#else
#define WEFT_ELEMENTS_INL_H
#endif

#include <cstdint>
#include <cstring>

#include "kernels/simd.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Rounded to the nearest bf16, ties to even, NaN to NaN: its bits are the upper half of each lane,
// and the lower half is of no meaning.
template <class V>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<hn::DFromV<V>>> bf16_in_upper_half(V v) {
  const hn::RebindToUnsigned<hn::DFromV<V>> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFU)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000U));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
}

using Sums = hn::Vec<hn::ScalableTag<float>>;

#if WEFT_BF16_DOTS

using PairTag = hn::ScalableTag<uint32_t>;
using Pairs = hn::Vec<PairTag>;

// The rounded values of two vectors, lane by lane.
HWY_INLINE Pairs make_pairs(Sums first, Sums second) {
#if defined(WEFT_VARIANT_BF16) && HWY_ARCH_X86
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto both = (__m512i)_mm512_cvtne2ps_pbh(second.raw, first.raw);
  return Pairs{_mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both)};
#elif defined(WEFT_VARIANT_BF16)
  const auto low = vreinterpret_u16_bf16(vcvt_bf16_f32(first.raw));
  const auto high = vreinterpret_u16_bf16(vcvt_bf16_f32(second.raw));
  return Pairs(vreinterpretq_u32_u16(vcombine_u16(vzip1_u16(low, high), vzip2_u16(low, high))));
#else
  const auto low = hn::ShiftRight<16>(bf16_in_upper_half(first));
  return hn::Or(low, hn::And(bf16_in_upper_half(second), hn::Set(PairTag(), 0xFFFF0000U)));
#endif
}

// sum + a.second * b.second + a.first * b.first. In software it rounds as x86 does: two fused
// multiply-adds (but keeps subnormal numbers); NEON rounds the sum of the two products to odd.
HWY_INLINE Sums add_dot(Sums sum, Pairs a, Pairs b) {
#if defined(WEFT_VARIANT_BF16) && HWY_ARCH_X86
  return Sums{_mm512_dpbf16_ps(sum.raw, (__m512bh)a.raw, (__m512bh)b.raw)};
#elif defined(WEFT_VARIANT_BF16)
  return Sums(vbfdotq_f32(sum.raw, vreinterpretq_bf16_u32(a.raw), vreinterpretq_bf16_u32(b.raw)));
#else
  const hn::ScalableTag<float> df;
  const auto upper = hn::Set(PairTag(), 0xFFFF0000U);
  const auto second = [&](Pairs p) { return hn::BitCast(df, hn::And(p, upper)); };
  const auto first = [&](Pairs p) { return hn::BitCast(df, hn::ShiftLeft<16>(p)); };
  return hn::MulAdd(first(a), first(b), hn::MulAdd(second(a), second(b), sum));
#endif
}

constexpr int kElementInputs = 2;
using Elements = Pairs;
HWY_INLINE Elements load_elements(const uint32_t* p) { return hn::Load(PairTag(), p); }
HWY_INLINE Elements broadcast_element(const uint32_t* p) {
  uint32_t pair = 0;
  std::memcpy(&pair, p, sizeof(pair));
  return hn::Set(PairTag(), pair);
}
HWY_INLINE Sums add_product(Sums sum, Elements a, Elements b) { return add_dot(sum, a, b); }

#else

constexpr int kElementInputs = 1;
using Elements = Sums;
HWY_INLINE Elements load_elements(const uint32_t* p) {
  return hn::Load(hn::ScalableTag<float>(), reinterpret_cast<const float*>(p));
}
HWY_INLINE Elements broadcast_element(const uint32_t* p) {
  float value = 0;
  std::memcpy(&value, p, sizeof(value));
  return hn::Set(hn::ScalableTag<float>(), value);
}
HWY_INLINE Sums add_product(Sums sum, Elements a, Elements b) { return hn::MulAdd(a, b, sum); }

#endif  // WEFT_BF16_DOTS

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_ELEMENTS_INL_H
