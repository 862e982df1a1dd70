// Dot products of unsigned or signed weight bytes with signed activation bytes, four to a 32-bit
// lane, in what each target does best. All are exact, so their order is free.

#if defined(WEFT_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_DOT_INL_H
#undef WEFT_DOT_INL_H
#else
#define WEFT_DOT_INL_H
#endif

#include <cstring>

#include "kernels/activations.h"
#include "kernels/simd.h"
#include "kernels/vectors-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE U8 broadcast_quad(const int8_t* p) {
  int32_t quad = 0;
  std::memcpy(&quad, p, sizeof(quad));
  return hn::BitCast(U8Tag(), hn::Set(I32Tag(), quad));
}

// Dots<bits>: accumulates dot products of weights of so many bits with activations of magnitude 127
// at most.
//   kSignedBytes   whether 8-bit weights must come signed instead of plus 128
//   Weights        a quad's weights, made ready once for all rows
//   Sum            the accumulator, good for 32 inputs
//   shared_bits()  one number for all bits that are treated alike
//   start(), add(sum, weights, activations), total(sum, start)

#if HWY_TARGET == HWY_AVX3_DL || (HWY_TARGET == HWY_AVX2 && WEFT_BYTE_DOTS)

template <int kBits>
struct Dots {
  static constexpr bool kSignedBytes = false;
  using Weights = U8;
  using Sum = I32;
  static HWY_INLINE Weights ready(U8 w) { return w; }
  static HWY_INLINE Sum start(I32 start) { return start; }
  static HWY_INLINE Sum add(Sum sum, Weights w, U8 a) {
#if defined(WEFT_VARIANT_DOT)
    return Sum{_mm256_dpbusd_avx_epi32(sum.raw, w.raw, a.raw)};
#elif HWY_TARGET == HWY_AVX2
    return Sum{_mm256_dpbusd_epi32(sum.raw, w.raw, a.raw)};
#else
    return Sum{_mm512_dpbusd_epi32(sum.raw, w.raw, a.raw)};
#endif
  }
  static HWY_INLINE I32 total(Sum sum, I32 /*start*/) { return sum; }
};

constexpr int shared_bits(int /*bits*/) { return 8; }

#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

constexpr int shared_bits(int bits) { return bits <= 4 ? 4 : bits <= 6 ? 6 : 8; }

// vpmaddubsw adds two products in 16 bits and saturates, so products have to be small.
HWY_INLINE I16 multiply_pairs(U8 unsigned_bytes, U8 signed_bytes) {
#if HWY_TARGET == HWY_AVX2
  return I16{_mm256_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#else
  return I16{_mm512_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#endif
}
HWY_INLINE I32 add_pairs(I16 v) {
#if HWY_TARGET == HWY_AVX2
  return I32{_mm256_madd_epi16(v.raw, _mm256_set1_epi16(1))};
#else
  return I32{_mm512_madd_epi16(v.raw, _mm512_set1_epi16(1))};
#endif
}

// 5 and 6 bits: two products reach 16,002.
template <int kBits>
struct Dots {
  static constexpr bool kSignedBytes = true;
  using Weights = U8;
  using Sum = I32;
  static HWY_INLINE Weights ready(U8 w) { return w; }
  static HWY_INLINE Sum start(I32 start) { return start; }
  static HWY_INLINE Sum add(Sum sum, Weights w, U8 a) {
    return hn::Add(sum, add_pairs(multiply_pairs(w, a)));
  }
  static HWY_INLINE I32 total(Sum sum, I32 /*start*/) { return sum; }
};

// Up to 4 bits: sixteen products, all of a 16-bit lane's in a block, reach 30,480.
struct ShortDots {
  static constexpr bool kSignedBytes = true;
  using Weights = U8;
  using Sum = I16;
  static HWY_INLINE Weights ready(U8 w) { return w; }
  static HWY_INLINE Sum start(I32 /*start*/) { return hn::Zero(I16Tag()); }
  static HWY_INLINE Sum add(Sum sum, Weights w, U8 a) { return hn::Add(sum, multiply_pairs(w, a)); }
  static HWY_INLINE I32 total(Sum sum, I32 start) { return hn::Add(start, add_pairs(sum)); }
};
template <>
struct Dots<4> : ShortDots {};

// 8 bits: the sign moves to the activation; two products reach 32,512.
template <>
struct Dots<8> {
  static constexpr bool kSignedBytes = true;
#if HWY_TARGET == HWY_AVX2
  struct Weights {
    U8 magnitude;
    U8 value;
  };
  static HWY_INLINE Weights ready(U8 w) { return {U8{_mm256_abs_epi8(w.raw)}, w}; }
  static HWY_INLINE U8 with_sign(U8 a, const Weights& w) {
    return U8{_mm256_sign_epi8(a.raw, w.value.raw)};
  }
#else
  struct Weights {
    U8 magnitude;
    __mmask64 negative;
  };
  static HWY_INLINE Weights ready(U8 w) {
    return {U8{_mm512_abs_epi8(w.raw)}, _mm512_movepi8_mask(w.raw)};
  }
  static HWY_INLINE U8 with_sign(U8 a, const Weights& w) {
    return U8{_mm512_mask_sub_epi8(a.raw, w.negative, _mm512_setzero_si512(), a.raw)};
  }
#endif
  using Sum = I32;
  static HWY_INLINE Sum start(I32 start) { return start; }
  static HWY_INLINE Sum add(Sum sum, const Weights& w, U8 a) {
    return hn::Add(sum, add_pairs(multiply_pairs(w.magnitude, with_sign(a, w))));
  }
  static HWY_INLINE I32 total(Sum sum, I32 /*start*/) { return sum; }
};

#elif HWY_TARGET == HWY_NEON

constexpr int shared_bits(int bits) { return bits <= 6 ? 6 : 8; }

// Codes of up to 6 bits are the same bytes signed and unsigned.
template <int kBits>
struct Dots {
  static constexpr bool kSignedBytes = true;
  using Weights = U8;
  using Sum = I32;
  static HWY_INLINE Weights ready(U8 w) { return w; }
  static HWY_INLINE Sum start(I32 start) { return start; }
  static HWY_INLINE Sum add(Sum sum, Weights w, U8 a) {
    const int8x16_t w8 = vreinterpretq_s8_u8(w.raw);
    const int8x16_t a8 = vreinterpretq_s8_u8(a.raw);
#if WEFT_BYTE_DOTS
    return Sum(vdotq_s32(sum.raw, w8, a8));
#else
    const int16x8_t low = vmull_s8(vget_low_s8(w8), vget_low_s8(a8));
    const int16x8_t high = vmull_high_s8(w8, a8);
    return Sum(vpadalq_s16(sum.raw, vpaddq_s16(low, high)));  // two products reach 32,512
#endif
  }
  static HWY_INLINE I32 total(Sum sum, I32 /*start*/) { return sum; }
};

#endif

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_DOT_INL_H
