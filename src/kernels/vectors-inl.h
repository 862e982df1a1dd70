// The vector types of the matrix kernels and what all of them need. Included once for each target;
// see kernels/simd.h.

#if defined(WEFT_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_VECTORS_INL_H
#undef WEFT_VECTORS_INL_H
#else
#define WEFT_VECTORS_INL_H
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/simd.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::ScalableTag<float>;
using I32Tag = hn::ScalableTag<int32_t>;
using I16Tag = hn::ScalableTag<int16_t>;
using U16Tag = hn::ScalableTag<uint16_t>;
using U8Tag = hn::ScalableTag<uint8_t>;
using F32 = hn::Vec<F32Tag>;
using I32 = hn::Vec<I32Tag>;
using I16 = hn::Vec<I16Tag>;
using U8 = hn::Vec<U8Tag>;
constexpr int kLanes = HWY_LANES(float);  // outputs of one vector

template <class F, int... I>
HWY_INLINE void unroll_over(F&& f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>()), ...);
}
// f(0), f(1), ... f(N - 1), the index a constant.
template <int N, class F>
HWY_INLINE void unroll(F&& f) {
  unroll_over(f, std::make_integer_sequence<int, N>());
}

HWY_INLINE F32 widen_halves(const std::byte* p) {
  const hn::Rebind<hwy::float16_t, F32Tag> d;
  return hn::PromoteTo(F32Tag(), hn::LoadU(d, reinterpret_cast<const hwy::float16_t*>(p)));
}

// How far ahead of its use packed weights are fetched from memory.
constexpr int64_t kPrefetchBytes = 16384;

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_VECTORS_INL_H
