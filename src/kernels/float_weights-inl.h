// Readers of packed float weights, compiled for each target: F32, F16 and BF16 panels as vectors of
// floats.

#if defined(WEFT_FLOAT_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_FLOAT_WEIGHTS_INL_H
#undef WEFT_FLOAT_WEIGHTS_INL_H
#else
#define WEFT_FLOAT_WEIGHTS_INL_H
#endif

#include "kernels/panel.h"
#include "kernels/simd.h"
#include "kernels/vectors-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {

HWY_INLINE void fetch_lines(const std::byte* p, int bytes) {
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

// Float panels: kStep inputs at a time, input `i` of the step, vector v.
template <int kVectors_>
struct F32Reader {
  static constexpr int kVectors = kVectors_;
  static constexpr int kStep = 1;
  const std::byte* at;
  int first;
  template <int kInput>
  HWY_INLINE F32 weights(int v) const {
    return hn::Load(F32Tag(), reinterpret_cast<const float*>(at) + first + v * kLanes);
  }
  HWY_INLINE void fetch(int64_t ahead) const { fetch_lines(at + ahead, kPanelOutputs * 4); }
  HWY_INLINE void next() { at += kPanelOutputs * 4; }
};

template <int kVectors_>
struct F16Reader {
  static constexpr int kVectors = kVectors_;
  static constexpr int kStep = 1;
  const std::byte* at;
  int first;
  template <int kInput>
  HWY_INLINE F32 weights(int v) const {
    return widen_halves(at + 2 * (first + v * kLanes));
  }
  HWY_INLINE void fetch(int64_t ahead) const { fetch_lines(at + ahead, kPanelOutputs * 2); }
  HWY_INLINE void next() { at += kPanelOutputs * 2; }
};

template <int kVectors_>
struct BF16Reader {
  static constexpr int kVectors = kVectors_;
  static constexpr int kStep = 2;
  const std::byte* at;
  int first;
  template <int kInput>
  HWY_INLINE F32 weights(int v) const {
    const auto both = hn::Load(I32Tag(), reinterpret_cast<const int32_t*>(at) + first + v * kLanes);
    if constexpr (kInput == 0) return hn::BitCast(F32Tag(), hn::ShiftLeft<16>(both));
    return hn::BitCast(F32Tag(), hn::And(both, hn::Set(I32Tag(), -65536)));
  }
  HWY_INLINE void fetch(int64_t ahead) const { fetch_lines(at + ahead, kPanelOutputs * 4); }
  HWY_INLINE void next() { at += kPanelOutputs * 4; }
};

// Expands `inputs` inputs of a float panel to F32; a BF16 panel has an even number of them.
template <template <int> class Reader>
void expand_floats(const std::byte* panel, int64_t inputs, std::byte* out) {
  using R = Reader<1>;
  for (int first = 0; first < kPanelOutputs; first += kLanes) {
    R reader{panel, first};
    auto* to = reinterpret_cast<float*>(out) + first;
    for (int64_t i = 0; i < inputs; i += R::kStep) {
      if (first == 0) reader.fetch(kPrefetchBytes);
      unroll<R::kStep>([&](auto k) WEFT_INLINE_LAMBDA {
        hn::Store(reader.template weights<k>(0), F32Tag(), to);
        to += kPanelOutputs;
      });
      reader.next();
    }
  }
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_FLOAT_WEIGHTS_INL_H
