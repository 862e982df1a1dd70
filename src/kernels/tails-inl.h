// The first n lanes of a vector: how every SIMD kernel handles ragged ends with the code of whole
// vectors. Included once for each target; see kernels/simd.h.

#include <cstddef>

#if defined(WEFT_TAILS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TAILS_INL_H
#undef WEFT_TAILS_INL_H
#else
#define WEFT_TAILS_INL_H
#endif

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// p[0 ... n-1] with n <= Lanes(d), zero in the other lanes; nothing beyond is touched.
template <class D>
HWY_INLINE hn::Vec<D> load_first(D d, const float* p, size_t n) {
  if (n == hn::Lanes(d)) return hn::LoadU(d, p);
#if HWY_ARCH_X86
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);  // x86 faults on no lane that is masked out
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
  for (size_t i = 0; i < n; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#endif
}

template <class D>
HWY_INLINE void store_first(hn::Vec<D> v, D d, float* p, size_t n) {
  if (n == hn::Lanes(d)) return hn::StoreU(v, d, p);
#if HWY_ARCH_X86
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < n; ++i) p[i] = lanes[i];
#endif
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET
#endif  // include guard
