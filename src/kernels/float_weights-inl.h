// Readers of packed float weights, compiled for each target: what a panel holds, as the vectors
// that the kernels multiply. Weights and activations meet as 32-bit elements, a float or, where the
// target has dot products of them, a pair of bf16.

#if defined(WEFT_FLOAT_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_FLOAT_WEIGHTS_INL_H
#undef WEFT_FLOAT_WEIGHTS_INL_H
#else
#define WEFT_FLOAT_WEIGHTS_INL_H
#endif

#include "kernels/elements-inl.h"
#include "kernels/panel.h"
#include "kernels/simd.h"
#include "kernels/vectors-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {

// A reader gives kElements elements of kVectors vectors of outputs at a time, from output `first`
// on; kBytes of the panel hold them for all its outputs.

// What is stored as the kernels multiply it.
template <int kVectors_>
struct ElementReader {
  static constexpr int kVectors = kVectors_;
  static constexpr int kElements = 1;
  static constexpr int kBytes = 4 * kPanelOutputs;
  const std::byte* at;
  int first;
  template <int kElement>
  HWY_INLINE Elements weights(int v) const {
    return load_elements(reinterpret_cast<const uint32_t*>(at) + first + v * kLanes);
  }
  HWY_INLINE void next() { at += kBytes; }
};

#if WEFT_BF16_DOTS

template <int kVectors>
using BF16Reader = ElementReader<kVectors>;

template <int kVectors_>
struct F16Reader {
  static constexpr int kVectors = kVectors_;
  static constexpr int kElements = 1;
  static constexpr int kBytes = 4 * kPanelOutputs;
  const std::byte* at;
  int first;
  template <int kElement>
  HWY_INLINE Elements weights(int v) const {
    const std::byte* halves = at + 2 * (first + v * kLanes);
    return make_pairs(widen_halves(halves), widen_halves(halves + 2 * kPanelOutputs));
  }
  HWY_INLINE void next() { at += kBytes; }
};

template <int kVectors>
using ExpandedReader = ElementReader<kVectors>;

#else

template <int kVectors>
using F32Reader = ElementReader<kVectors>;

template <int kVectors_>
struct F16Reader {
  static constexpr int kVectors = kVectors_;
  static constexpr int kElements = 1;
  static constexpr int kBytes = 2 * kPanelOutputs;
  const std::byte* at;
  int first;
  template <int kElement>
  HWY_INLINE Elements weights(int v) const {
    return widen_halves(at + 2 * (first + v * kLanes));
  }
  HWY_INLINE void next() { at += kBytes; }
};

template <int kVectors_>
struct BF16Reader {
  static constexpr int kVectors = kVectors_;
  static constexpr int kElements = 2;
  static constexpr int kBytes = 4 * kPanelOutputs;
  const std::byte* at;
  int first;
  template <int kElement>
  HWY_INLINE Elements weights(int v) const {
    const auto both = hn::Load(I32Tag(), reinterpret_cast<const int32_t*>(at) + first + v * kLanes);
    if constexpr (kElement == 0) return hn::BitCast(F32Tag(), hn::ShiftLeft<16>(both));
    return hn::BitCast(F32Tag(), hn::And(both, hn::Set(I32Tag(), -65536)));
  }
  HWY_INLINE void next() { at += kBytes; }
};

template <int kVectors>
using ExpandedReader = F32Reader<kVectors>;

#endif

// Memory to fetch while something else is read.
struct Ahead {
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;

  template <int kBytes>
  HWY_INLINE void fetch() {
    if (at >= end) return;
    for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(at + i, 0, 2);
    at += kBytes;
  }
};

// Writes `elements` elements of a panel as ExpandedReader reads them.
template <template <int> class Reader>
void expand_floats(const std::byte* panel, int64_t elements, std::byte* out) {
  using R = Reader<1>;
  for (int first = 0; first < kPanelOutputs; first += kLanes) {
    R reader{panel, first};
    auto* to = reinterpret_cast<uint32_t*>(out) + first;
    for (int64_t i = 0; i < elements; i += R::kElements) {
      unroll<R::kElements>([&](auto k) WEFT_INLINE_LAMBDA {
        const hn::ScalableTag<uint32_t> bits;
        hn::Store(hn::BitCast(bits, reader.template weights<k>(0)), bits, to);
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
