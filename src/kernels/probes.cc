// Yardsticks of the benchmarks: what an instruction set can do at most.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/probes.cc"
#include <cstdint>

#include "kernels/kernel_table.h"
#include "kernels/simd.h"

#include "kernels/dot-inl.h"
#include "kernels/elements-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Independent accumulators: enough to hide an instruction's latency, few enough to stay in
// registers.
constexpr int kChains = HWY_TARGET == HWY_AVX2 ? 12 : 24;
constexpr int64_t kReadStep = 256;

// Hides from the compiler that a vector is what it was, so that nothing made of it is reused.
template <class Vec>
HWY_INLINE void renew(Vec& v) {
#if HWY_ARCH_X86
  asm volatile("" : "+x"(v.raw));
#else
  asm volatile("" : "+w"(v.raw));
#endif
}

// Operations of one multiplication and addition in each of `lanes` lanes of every chain.
constexpr int64_t operations(int64_t repeats, int lanes) { return repeats * kChains * lanes * 2; }

int64_t peak_int8(int64_t repeats) {
  using Dot = Dots<4>;  // the fewest bits have the fastest dot product
  U8 weights = hn::Set(U8Tag(), 1);
  const U8 activations = hn::Set(U8Tag(), 1);
  typename Dot::Sum sums[kChains];
  unroll<kChains>([&](auto c) WEFT_INLINE_LAMBDA { sums[c] = Dot::start(hn::Zero(I32Tag())); });
  for (int64_t i = 0; i < repeats; ++i) {
    unroll<kChains>([&](auto c) WEFT_INLINE_LAMBDA {
      renew(weights);
      sums[c] = Dot::add(sums[c], Dot::ready(weights), activations);
    });
  }
  unroll<kChains>([&](auto c) WEFT_INLINE_LAMBDA { renew(sums[c]); });
  return operations(repeats, 4 * kLanes);
}

#if WEFT_BF16_DOTS
int64_t peak_bf16(int64_t repeats) {
  Pairs weights = hn::Set(PairTag(), 0x3f003f00U);
  const Pairs activations = weights;
  F32 sums[kChains];
  unroll<kChains>([&](auto c) WEFT_INLINE_LAMBDA { sums[c] = hn::Zero(F32Tag()); });
  for (int64_t i = 0; i < repeats; ++i) {
    unroll<kChains>([&](auto c) WEFT_INLINE_LAMBDA {
      renew(weights);
      sums[c] = add_dot(sums[c], weights, activations);
    });
  }
  unroll<kChains>([&](auto c) WEFT_INLINE_LAMBDA { renew(sums[c]); });
  return operations(repeats, 2 * kLanes);
}
#else
int64_t peak_bf16(int64_t /*repeats*/) { return 0; }
#endif

int64_t peak_f32(int64_t repeats) {
  const F32 a = hn::Set(F32Tag(), 0.5F);
  F32 sums[kChains];
  unroll<kChains>([&](auto c) WEFT_INLINE_LAMBDA { sums[c] = hn::Zero(F32Tag()); });
  for (int64_t i = 0; i < repeats; ++i) {
    unroll<kChains>([&](auto c) WEFT_INLINE_LAMBDA { sums[c] = hn::MulAdd(a, a, sums[c]); });
  }
  unroll<kChains>([&](auto c) WEFT_INLINE_LAMBDA { renew(sums[c]); });
  return operations(repeats, kLanes);
}

void read_memory(const std::byte* from, int64_t bytes, int64_t ahead) {
  constexpr int kVectors = kReadStep / (4 * kLanes);
  U8 all[kVectors];
  unroll<kVectors>([&](auto v) WEFT_INLINE_LAMBDA { all[v] = hn::Zero(U8Tag()); });
  for (int64_t i = 0; i < bytes; i += kReadStep) {
    if (ahead > 0) {
      for (int64_t line = 0; line < kReadStep; line += 64) {
        __builtin_prefetch(from + i + ahead + line, 0, 2);
      }
    }
    unroll<kVectors>([&](auto v) WEFT_INLINE_LAMBDA {
      const auto* p = reinterpret_cast<const uint8_t*>(from + i) + v * 4 * kLanes;
      all[v] = hn::Or(all[v], hn::LoadU(U8Tag(), p));
    });
  }
  unroll<kVectors>([&](auto v) WEFT_INLINE_LAMBDA { renew(all[v]); });
}

}  // namespace

void WEFT_FILL(probes)(KernelTable& table) {
  table.peak_int8 = peak_int8;
  table.peak_bf16 = peak_bf16;
  table.peak_f32 = peak_f32;
  table.read_memory = read_memory;
}

}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET
